// The one stream of all pages of a browser that can be seen. Over HTTP/1.1 a browser has six
// connections, so that a stream a page would leave none for the seventh.
const names = ["page", "parts", "same", "cells", "reread", "away", "done", "other"];
const first = 1000, most = 30000;

export class Streams {
  constructor() {
    this.pages = new Map(); // key → {view, seen, as, tell}
    this.wait = first;
  }

  // join adds a page that was made for the person of the mark as; tell gets its events: (name, data,
  // seen).
  join(key, view, seen, as, tell) {
    this.pages.set(key, { view, seen, as, tell });
    this.again(0);
  }

  leave(key) {
    if (this.pages.delete(key)) this.again(0);
  }

  // again opens the stream with the pages that there are then.
  again(after) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), after);
  }

  open() {
    this.close();
    const same = (a) => (b) => a.view === b.view && a.as === b.as;
    const views = [...this.pages.values()].filter((p, i, all) => all.findIndex(same(p)) === i);
    if (views.length === 0) return;
    const of = (view) => [...this.pages.values()].filter(same(view));
    const tell = (name, data, seen) => { for (const p of [...this.pages.values()]) p.tell(name, data, seen); };
    const query = new URLSearchParams();
    for (const view of views) {
      const seen = new Set(of(view).map((p) => p.seen));
      query.append("view", view.view);
      query.append("as", view.as);
      query.append("seen", seen.size === 1 ? [...seen][0] : ""); // pages that differ all get the newest
    }
    const source = this.source = new EventSource("/live?" + query);
    views.forEach((view, i) => {
      for (const name of names) {
        source.addEventListener(`${i}:${name}`, (e) => {
          this.wait = first;
          const seen = e.lastEventId.split(",")[i];
          for (const p of of(view)) {
            p.seen = seen;
            p.tell(name, e.data, seen);
          }
          if (name !== "done" && name !== "other") return;
          for (const [key, p] of this.pages) if (same(view)(p)) this.pages.delete(key);
          if (this.pages.size === 0) this.close();
        });
      }
    });
    source.addEventListener("login", () => {
      this.close();
      tell("login", "", undefined);
      this.pages.clear();
    });
    source.onerror = () => {
      this.close();
      tell("lost", "", undefined);
      this.again(this.wait + Math.random() * this.wait);
      this.wait = Math.min(this.wait * 2, most);
    };
  }

  close() {
    clearTimeout(this.timer);
    if (this.source) this.source.close();
    this.source = undefined;
  }
}
