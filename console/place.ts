// Where in the console the visitor is: the address bar is the only record of it, filters included.
import { useEffect, useState } from "preact/hooks";

const moved = "stoker:moved";

export interface Place {
  /** Without `/console`; "/" is the first page. */
  readonly path: string;
  readonly query: URLSearchParams;
}

export function placeOf({ pathname, search }: Location): Place {
  return { path: pathname.replace(/^\/console/, "").replace(/\/+$/, "") || "/", query: new URLSearchParams(search) };
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => placeOf(location));
  useEffect(() => {
    const look = () =>
      setPlace((before) => {
        const now = placeOf(location);
        return now.path === before.path && String(now.query) === String(before.query) ? before : now;
      });
    // Somebody may have moved on since this was drawn.
    look();
    addEventListener("popstate", look);
    addEventListener(moved, look);
    return () => {
      removeEventListener("popstate", look);
      removeEventListener(moved, look);
    };
  }, []);
  return place;
}

/** `to`: a path of the console, `/deployments?q=x`. */
export function go(to: string): void {
  history.pushState(null, "", `/console${to === "/" ? "" : to}`);
  dispatchEvent(new Event(moved));
  scrollTo(0, 0);
}

/** A filter that a link can carry. Empty: not in the address. */
export function useFilter(name: string): readonly [value: string, set: (value: string) => void] {
  const { query } = usePlace();
  const set = (value: string) => {
    const next = new URLSearchParams(location.search);
    if (value === "") next.delete(name);
    else next.set(name, value);
    const text = next.toString();
    // Typing in a search box is no step to go back to.
    history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
    dispatchEvent(new Event(moved));
  };
  return [query.get(name) ?? "", set];
}

/** Links within the console move without loading it anew; whatever else a click may mean stays the browser's. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  const { pathname, search } = link;
  if (pathname !== "/console" && !pathname.startsWith("/console/")) return;
  event.preventDefault();
  go((pathname.slice("/console".length) || "/") + search);
}

/** `/` goes to the page's search box, as long as nothing is being typed. */
export function focusSearch(event: KeyboardEvent): void {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if ((event.target as Element | null)?.closest?.("input, textarea, select")) return;
  const box = document.querySelector<HTMLInputElement>("input[type=search]");
  if (!box) return;
  event.preventDefault();
  box.focus();
}
