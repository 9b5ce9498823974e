// Keys of a page: nothing happens while somebody types, with a modifier, or where they are off.
// A key is [what it does, in words; function].
const all = { "?": ["show the keys of this page", () => show()] };
const off = () => localStorage.getItem("keys") === "off";

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea")) return;
  const act = all[e.key];
  if (!act?.[1] || off() || document.querySelector("dialog[open]")) return;
  e.preventDefault();
  act[1]();
});

export function keys(more) { Object.assign(all, more); }

// show lists the keys. Escape closes the list, and the focus returns to where it was.
function show() {
  const dialog = document.createElement("dialog");
  const title = document.createElement("h2");
  title.textContent = "Keys";
  title.id = "keys";
  dialog.setAttribute("aria-labelledby", title.id);
  const list = document.createElement("dl");
  list.className = "facts";
  for (const [key, [words]] of Object.entries(all)) {
    const term = document.createElement("dt"), what = document.createElement("dd"), cap = document.createElement("kbd");
    cap.textContent = key;
    term.append(cap);
    what.textContent = words;
    list.append(term, what);
  }
  const form = document.createElement("form");
  form.method = "dialog";
  const close = document.createElement("button");
  close.textContent = "Close";
  form.append(close);
  dialog.append(title, list, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// A button says the keys, and turns them off and on. A page that has it already keeps its place.
export function keysButton(beside, help) {
  const button = beside.querySelector("button.scripted") ?? beside.appendChild(document.createElement("button"));
  button.type = "button";
  button.disabled = false;
  const label = () => {
    button.textContent = off() ? "Keys are off" : `Keys: ${help}`;
    button.setAttribute("aria-pressed", String(!off()));
  };
  button.addEventListener("click", () => {
    localStorage.setItem("keys", off() ? "on" : "off");
    label();
  });
  label();
}
