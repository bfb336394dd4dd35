// Current page and filters. The URL is their only store.
import { useEffect, useState } from "preact/hooks";

const moved = "stoker:moved";

export interface Place {
  /** Without `/console`. "/" is the start page. */
  readonly path: string;
  readonly query: URLSearchParams;
}

export function placeOf({ pathname, search }: Location): Place {
  return { path: pathname.replace(/^\/console/, "").replace(/\/+$/, "") || "/", query: new URLSearchParams(search) };
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => placeOf(location));
  useEffect(() => {
    const update = () =>
      setPlace((before) => {
        const now = placeOf(location);
        return now.path === before.path && String(now.query) === String(before.query) ? before : now;
      });
    // The location may have changed since the first render.
    update();
    addEventListener("popstate", update);
    addEventListener(moved, update);
    return () => {
      removeEventListener("popstate", update);
      removeEventListener(moved, update);
    };
  }, []);
  return place;
}

/** `to`: a path of the console, such as `/deployments?q=x`. */
export function go(to: string): void {
  history.pushState(null, "", `/console${to === "/" ? "" : to}`);
  dispatchEvent(new Event(moved));
  scrollTo(0, 0);
}

/** Filter in the query of the URL. Empty: not in the URL. */
export function useFilter(name: string): readonly [value: string, set: (value: string) => void] {
  const { query } = usePlace();
  const set = (value: string) => {
    const next = new URLSearchParams(location.search);
    if (value === "") next.delete(name);
    else next.set(name, value);
    const text = next.toString();
    // Typing in a search box adds no history entry.
    history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
    dispatchEvent(new Event(moved));
  };
  return [query.get(name) ?? "", set];
}

/** Opens links within the console without reloading. Other clicks keep their default. */
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

/** `/` focuses the search box unless an input has the focus. */
export function focusSearch(event: KeyboardEvent): void {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if ((event.target as Element | null)?.closest?.("input, textarea, select")) return;
  const box = document.querySelector<HTMLInputElement>("input[type=search]");
  if (!box) return;
  event.preventDefault();
  box.focus();
}
