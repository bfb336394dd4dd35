import { type ReactNode, useSyncExternalStore } from "react";
import { text } from "../text/common.ts";
import { agoText, inUtc } from "./format.ts";

const tickMs = 1000;
const listeners = new Set<() => void>();
let ticker: ReturnType<typeof setInterval> | undefined;
let nowMs = Date.now();

/** One clock for all times of a page, so that they agree. */
function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  ticker ??= setInterval(() => {
    nowMs = Date.now();
    for (const each of listeners) each();
  }, tickMs);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(ticker);
    ticker = undefined;
  };
}

function clock(): number {
  // Without a listener nothing moves it.
  if (!ticker && Date.now() - nowMs >= tickMs) nowMs = Date.now();
  return nowMs;
}

/** Time now, renewed every second. */
export const useNow = (): number => useSyncExternalStore(subscribe, clock);

/** Relative time, with the absolute time on hover. `at`: Unix seconds or ISO 8601. */
export function Ago({ at }: { at: number | string | null }): ReactNode {
  const atMs = typeof at === "number" ? at * 1000 : Date.parse(at ?? "");
  // Rendered again only when its words change.
  const words = useSyncExternalStore(subscribe, () => (Number.isNaN(atMs) ? "" : agoText(atMs, clock())));
  if (at === null || at === "") return text.never;
  if (words === "") return String(at);
  return (
    <time dateTime={new Date(atMs).toISOString()} title={inUtc(atMs)}>
      {words}
    </time>
  );
}
