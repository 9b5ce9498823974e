// Each time is in UTC, or in the zone of its window. A button shows all in the viewer's own zone. The
// title has the other one.
const format = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const own = () => localStorage.getItem("times") === "own";

export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    const sent = time.dataset.sent ??= time.textContent, here = format.format(at);
    const text = own() ? here : sent;
    if (time.textContent !== text) time.textContent = text;
    time.title = own() ? sent : `Your time: ${here}`;
  }
}

// A button turns times into the viewer's own zone, for people without a mouse too, and back.
export function timesButton(beside) {
  const button = document.createElement("button");
  button.type = "button";
  button.id = "times";
  button.textContent = "Times in your own zone";
  const label = () => button.setAttribute("aria-pressed", String(own()));
  button.addEventListener("click", () => {
    localStorage.setItem("times", own() ? "sent" : "own");
    label();
    localTimes(document);
  });
  label();
  beside.firstElementChild.after(button); // where nothing moves
}
