// Keeps the page of a run up to date.
import { Live } from "./live.js";
import { localTimes } from "./times.js";
import { Grid } from "./grid.js";

const pictureEvery = 15000;

export function startRun() {
  const live = document.getElementById("live");
  const picture = document.getElementById("picture");
  const grid = new Grid(document.getElementById("cells"));
  let drawn = 0;

  // The forecast takes the server seconds for a large run: it is fetched beside the stream.
  const forecast = document.getElementById("forecast");
  const foresee = async () => {
    const answer = await fetch(`${live.dataset.view}/forecast`).catch(() => undefined);
    if (!answer?.ok || answer.redirected) return;
    Idiomorph.morph(forecast, await answer.text(), { morphStyle: "innerHTML" });
    localTimes(forecast);
  };

  // The words beside the picture are fetched while somebody has them open.
  const words = document.getElementById("words");
  const tell = async () => {
    if (!words.open) return;
    const answer = await fetch(`${live.dataset.view}/timeline`).catch(() => undefined);
    if (!answer?.ok || answer.redirected) return;
    Idiomorph.morph(words.lastElementChild, await answer.text(), { morphStyle: "innerHTML" });
    localTimes(words);
  };
  words.addEventListener("toggle", tell);

  const draw = (now) => {
    if (!now && Date.now() - drawn < pictureEvery) return;
    drawn = Date.now();
    foresee();
    tell();
    picture.src = picture.src.replace(/\?.*/, "") + `?at=${drawn}`;
  };

  grid.load();
  if (live.dataset.over === "true") return;
  drawn = Date.now();
  if (forecast.querySelector("[data-late]")) foresee();
  const page = new Live(live, document.getElementById("run"), {
    page: (html) => { page.page(html); draw(false); },
    cells: (text) => grid.change(JSON.parse(text)),
    reread: () => grid.reload(),
    done: () => { draw(true); grid.load(); },
  });
}
