// Keeps the page of a run up to date.
import { Stream } from "./stream.js";
import { Grid } from "./grid.js";

const pictureEvery = 15000;

export function startRun() {
  const live = document.getElementById("live");
  const run = document.getElementById("run");
  const picture = document.getElementById("picture");
  const grid = new Grid(document.getElementById("cells"));
  let drawn = 0;

  const say = (text) => {
    live.textContent = text;
    live.className = text ? "stale" : "";
  };

  // The new state is put in the place of the old one, except under the hands of whoever types into it or has opened a part of it.
  const show = (html) => {
    const busy = run.contains(document.activeElement) && document.activeElement.matches("input") || run.querySelector("details[open]");
    if (busy) {
      say("This page is not updated while you type or have a form open.");
      return;
    }
    const next = document.createElement("template");
    next.innerHTML = html;
    run.replaceChildren(next.content);
    say("");
  };

  const draw = (now) => {
    if (!now && Date.now() - drawn < pictureEvery) return;
    drawn = Date.now();
    picture.src = picture.src.replace(/\?.*/, "") + `?at=${drawn}`;
  };

  grid.load();
  if (live.dataset.over === "true") return;
  drawn = Date.now();
  new Stream(live.dataset.live, {
    state: (html) => { show(html); draw(false); },
    cells: (text) => grid.change(JSON.parse(text)),
    reread: () => grid.reload(),
    done: (html) => { show(html); draw(true); grid.load(); },
  }, say);
}
