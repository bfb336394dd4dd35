// How quick a process makes its pages, by what it measures itself: a loaded test machine delays the way, not that.
// `watchPages` asks for them every second, as Prometheus would, while a test does its worst.
import { setTimeout as wait } from "node:timers/promises";
import { longer } from "./nightly.ts";

export interface PageTimes {
  readonly all: number;
  /** Of them: within 200 ms. */
  readonly quick: number;
}

/** By page, from the text of a metrics page. */
export function pageTimes(text: string): ReadonlyMap<string, PageTimes> {
  const found = new Map<string, PageTimes>();
  for (const [, page = "", all] of text.matchAll(/^stoker_metrics_page_seconds_count\{page="([^"]+)"\} (\d+)$/gm)) {
    const bucket = `stoker_metrics_page_seconds_bucket{le="0.2",page="${page}"} `;
    const line = text.split("\n").find((one) => one.startsWith(bucket));
    found.set(page, { all: Number(all), quick: Number(line?.slice(bucket.length)) });
  }
  return found;
}

export function timesSince(before: PageTimes | undefined, after: PageTimes | undefined): PageTimes {
  if (!after) throw new Error("the page tells nothing of its own time");
  return { all: after.all - (before?.all ?? 0), quick: after.quick - (before?.quick ?? 0) };
}

/**
 * How many of so many pages may be slower than 200 ms: one in twenty at night. A process may also wait for a processor that
 * others have: at every change one in four, where a page that waits for what is away would be slow nearly every time.
 */
export const mayBeSlow = ({ all }: PageTimes): number => Math.max(1, all / longer(4, 20));

export interface WatchedPage {
  readonly url: string;
  /** Asked for and not got within ten seconds, or with another status than 200. */
  readonly missed: number;
  readonly times: PageTimes;
}

/** Asks for each page every second until the returned function is called, which tells what came. */
export function watchPages(urls: readonly string[]): () => Promise<readonly WatchedPage[]> {
  const over = new AbortController();
  const path = (url: string) => new URL(url).pathname;
  const watched = urls.map(async (url): Promise<WatchedPage> => {
    let missed = 0;
    let first: PageTimes | undefined;
    let last: PageTimes | undefined;
    while (!over.signal.aborted) {
      const text = await fetch(url, { signal: AbortSignal.timeout(10_000) })
        .then((answer) => (answer.ok ? answer.text() : undefined))
        .catch(() => undefined);
      if (text === undefined) missed += 1;
      else {
        last = pageTimes(text).get(path(url)) ?? { all: 0, quick: 0 };
        first ??= last;
      }
      await wait(1_000, undefined, { signal: over.signal }).catch(() => {});
    }
    return { url, missed, times: timesSince(first, last) };
  });
  return () => {
    over.abort();
    return Promise.all(watched);
  };
}
