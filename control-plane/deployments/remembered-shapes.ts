// Bounds lookups at the hub: repeated previews, or previews of arbitrary repositories, must not cause rate limits (429) that
// then affect deployments and downloads.
import type { ShapeOfRepo } from "./expected-memory.ts";
import type { ModelShape } from "./memory-estimate.ts";

const foundMs = 600_000;
/** Also after a failed lookup: the hub may be back soon. */
const unknownMs = 60_000;
const maxRemembered = 200;
const maxConcurrent = 4;
/** Lookups per minute, two requests each: below the hub's limit for an address without a token. */
const maxPerMinute = 30;
const minuteMs = 60_000;

interface Remembered {
  readonly shape: ModelShape | undefined;
  readonly untilMs: number;
}

/** Beyond the bounds the shape is unknown, as for an unreachable hub. Results of a token are not cached. */
export function rememberShapes(fetchShape: ShapeOfRepo, nowMs: () => number = () => performance.now()): ShapeOfRepo {
  const remembered = new Map<string, Remembered>();
  const running = new Map<string, Promise<ModelShape | undefined>>();
  let concurrent = 0;
  let started = 0;
  let minuteFrom = Number.NEGATIVE_INFINITY;

  function mayStart(): boolean {
    if (nowMs() - minuteFrom >= minuteMs) {
      minuteFrom = nowMs();
      started = 0;
    }
    return concurrent < maxConcurrent && started < maxPerMinute;
  }

  async function fetchNow(...request: Parameters<ShapeOfRepo>): Promise<ModelShape | undefined> {
    concurrent += 1;
    started += 1;
    try {
      return await fetchShape(...request);
    } finally {
      concurrent -= 1;
    }
  }

  async function fetchAndCache(
    key: string,
    ...[repo, revision, , format]: Parameters<ShapeOfRepo>
  ): Promise<ModelShape | undefined> {
    try {
      const shape = await fetchNow(repo, revision, undefined, format);
      remembered.delete(key);
      remembered.set(key, { shape, untilMs: nowMs() + (shape ? foundMs : unknownMs) });
      const [oldest] = remembered.keys();
      if (remembered.size > maxRemembered && oldest !== undefined) remembered.delete(oldest);
      return shape;
    } finally {
      running.delete(key);
    }
  }

  return async (repo, revision, token, format) => {
    if (token !== undefined) return mayStart() ? fetchNow(repo, revision, token, format) : undefined;
    const key = `${repo}@${revision} ${format ?? ""}`;
    const known = remembered.get(key);
    if (known && nowMs() < known.untilMs) return known.shape;
    const current = running.get(key);
    if (current) return current;
    if (!mayStart()) return undefined;
    const next = fetchAndCache(key, repo, revision, undefined, format);
    running.set(key, next);
    return next;
  };
}
