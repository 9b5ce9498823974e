// Keeps the page of a run up to date.
import { Stream, fill } from "./stream.js";
import { localTimes } from "./times.js";
import { Grid } from "./grid.js";

const pictureEvery = 15000;

// typed reports whether an attribute is what a person did to the page: text, ticks, details opened.
function typed(name, element) {
  if (name === "open") return element.matches("details");
  return (name === "value" || name === "checked") && element.matches("input:not([type=hidden])");
}

export function startRun() {
  const live = document.getElementById("live");
  const run = document.getElementById("run");
  const picture = document.getElementById("picture");
  const grid = new Grid(document.getElementById("cells"));
  let drawn = 0, gone = false; // gone: the form that had the focus, until the focus goes elsewhere

  const say = (text, link) => {
    fill(live, text, link);
    live.className = text ? "stale" : "";
  };

  // The new state is put on the page by its differences, so that focus, selected text and scroll
  // positions stay. A form that is no longer there leaves the focus at what the run is now.
  const show = (html) => {
    const within = run.contains(document.activeElement);
    Idiomorph.morph(run, html, { morphStyle: "innerHTML", callbacks: { beforeAttributeUpdated: (name, element) => !typed(name, element) } });
    localTimes(run);
    if (within && !run.contains(document.activeElement)) {
      gone = true;
      run.focus({ preventScroll: true });
    }
    say(gone ? "The form that you were in is gone, because the run went on." : "");
  };
  document.addEventListener("focusin", (e) => { gone &&= e.target === run; });

  // The forecast takes the server seconds for a large run: it is fetched beside the stream.
  const forecast = document.getElementById("forecast");
  const foresee = async () => {
    const answer = await fetch(live.dataset.live.replace(/live$/, "forecast")).catch(() => undefined);
    if (!answer?.ok || answer.redirected) return;
    Idiomorph.morph(forecast, await answer.text(), { morphStyle: "innerHTML" });
    localTimes(forecast);
  };

  const draw = (now) => {
    if (!now && Date.now() - drawn < pictureEvery) return;
    drawn = Date.now();
    foresee();
    picture.src = picture.src.replace(/\?.*/, "") + `?at=${drawn}`;
  };

  grid.load();
  if (live.dataset.over === "true") return;
  drawn = Date.now();
  if (forecast.querySelector("[data-late]")) foresee();
  new Stream(live.dataset.live, {
    state: (html) => { show(html); draw(false); },
    cells: (text) => grid.change(JSON.parse(text)),
    reread: () => grid.reload(),
    done: (html) => { show(html); draw(true); grid.load(); },
  }, say);
}
