// The changes of a page while it is open. A hidden page gets none; when it is shown again it gets
// the state as it is then.
import { Streams } from "./streams.js";

// connect returns how the page joins the stream that all pages of the browser share.
function connect(tell) {
  const { version, as } = document.documentElement.dataset;
  const own = () => {
    const streams = new Streams();
    return { join: (view, seen) => streams.join(1, view, seen, as, tell), leave: () => streams.leave(1) };
  };
  if (!("SharedWorker" in window) || !navigator.locks) return own();
  const worker = new SharedWorker("/assets/shared.js", { type: "module", name: version });
  const port = worker.port;
  const lock = crypto.randomUUID();
  navigator.locks.request(lock, () => {
    port.postMessage({ lock });
    return new Promise(() => {}); // until the page ends
  });
  port.onmessage = ({ data }) => tell(data.name, data.text, data.seen);
  let to = {
    join: (view, seen) => port.postMessage({ view, seen, as }),
    leave: () => port.postMessage({ leave: true }),
  };
  let joined;
  worker.onerror = () => { // its script cannot be had: the connection broke behind the page
    to = own();
    if (joined) to.join(...joined);
  };
  return {
    join: (...page) => to.join(...(joined = page)),
    leave: () => {
      joined = undefined;
      to.leave();
    },
  };
}

export class Stream {
  constructor(view, seen, handlers, say) {
    let since = new Date();
    let over = false;
    const { join, leave } = connect((name, data, now) => {
      if (over) return;
      if (name === "lost") return say(`Reconnecting. ${asOf(since)}`);
      if (name === "login") { // typed text stays on the page
        over = true;
        return say(`Your session has ended. ${asOf(since)} `, loginAgain());
      }
      if (name === "other") {
        over = true;
        return another(say);
      }
      seen = now;
      if (name === "away" && data) return say(`${asOf(since)} It cannot be brought up to date: ${data}`);
      since = new Date();
      say("");
      over = name === "done";
      handlers[name]?.(data);
    });
    const follow = () => {
      if (over) return;
      if (document.hidden) leave();
      else join(view, seen);
    };
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", leave);
    addEventListener("pageshow", (e) => { if (e.persisted) follow(); });
    follow();
  }
}

export function asOf(since) { return `This page is as of ${since.toISOString().slice(11, 19)} UTC.`; }

// loginAgain leads to the login, and from there back to this page.
export function loginAgain() {
  return { text: "Log in again", to: `/login?next=${encodeURIComponent(location.pathname + location.search)}` };
}

// another ends a page whose browser logged in as another person: its buttons would act for the new person.
export function another(say) {
  say("This browser is now logged in as another person. ", { text: "Load the page", to: location.pathname + location.search });
  for (const button of document.querySelectorAll("main form[method=post] button")) button.disabled = true;
}

// fill puts a line into an element, with a link behind it if there is one.
export function fill(element, text, link) {
  if (element.textContent === text && !link) return; // a screen reader would say it again
  element.textContent = text;
  if (!link) return;
  const a = document.createElement("a");
  a.textContent = link.text;
  a.href = link.to;
  element.append(a);
}
