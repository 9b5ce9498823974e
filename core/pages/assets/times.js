// Each time is in UTC, or in the zone of its window. The title has it in the viewer's own zone.
const format = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!isNaN(at)) time.title = `Your time: ${format.format(at)}`;
  }
}
