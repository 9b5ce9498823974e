// Keys of a page: nothing happens while somebody types, with a modifier, or where they are off.
export function keys(bindings) {
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea")) return;
    if (localStorage.getItem("keys") === "off") return;
    const act = bindings[e.key];
    if (!act) return;
    e.preventDefault();
    act();
  });
}

// A button says the keys, and turns them off and on.
export function keysButton(beside, help) {
  const button = document.createElement("button");
  button.type = "button";
  const label = () => {
    const off = localStorage.getItem("keys") === "off";
    button.textContent = off ? "Keys are off" : `Keys: ${help}`;
    button.setAttribute("aria-pressed", String(!off));
  };
  button.addEventListener("click", () => {
    localStorage.setItem("keys", localStorage.getItem("keys") === "off" ? "on" : "off");
    label();
  });
  label();
  beside.append(button);
}
