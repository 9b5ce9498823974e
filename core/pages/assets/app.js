// Keeps the page of a run up to date. Without it the page can be read, and loaded again.
const live = document.getElementById("live");
const run = document.getElementById("run");

let stream, retry, wait = 1000, since = new Date();

function say(text) {
  live.textContent = text;
  live.className = text ? "stale" : "";
}

// The new state is put in the place of the old one, except under the hands of whoever types into it or has opened a part of it.
function show(html) {
  const busy = run.contains(document.activeElement) && document.activeElement.matches("input") || run.querySelector("details[open]");
  if (busy) {
    say("This page is not updated while you type or have a form open.");
    return;
  }
  const next = document.createElement("template");
  next.innerHTML = html;
  run.replaceChildren(next.content);
  since = new Date();
  say("");
}

function open() {
  stream = new EventSource(live.dataset.live);
  stream.addEventListener("state", (e) => { wait = 1000; show(e.data); });
  stream.addEventListener("done", (e) => { show(e.data); close(); });
  stream.onerror = () => {
    close();
    say(`Reconnecting. This page is as of ${since.toISOString().slice(11, 19)} UTC.`);
    retry = setTimeout(open, wait + Math.random() * wait);
    wait = Math.min(wait * 2, 30000);
  };
}

function close() {
  clearTimeout(retry);
  if (stream) stream.close();
  stream = undefined;
}

if (live && live.dataset.over !== "true") {
  open();
  // A hidden tab has no stream. When it is shown again it gets the state as it is then.
  document.addEventListener("visibilitychange", () => {
    close();
    if (!document.hidden) open();
  });
}
