import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import { isDatabaseAway } from "../store/database.ts";

/** The message is for the operator: what happened, why, what to do. */
export class DatabaseNotReached extends Error {
  override readonly name = "DatabaseNotReached";
}

/** Tries `work` until the database answers, at most `limitMs`. Whatever else goes wrong is thrown at once. */
export async function waitForDatabase<T>(
  work: () => Promise<T>,
  options: { readonly url: string; readonly limitMs: number; readonly log: Logger; readonly signal: AbortSignal },
): Promise<T> {
  const deadline = performance.now() + options.limitMs;
  let isTold = false;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isDatabaseAway(error)) throw error;
      options.signal.throwIfAborted();
      if (performance.now() >= deadline) throw new DatabaseNotReached(sentence(options, error), { cause: error });
      if (!isTold) options.log.info({ err: error }, "waiting for PostgreSQL");
      isTold = true;
      await wait(250, undefined, { signal: options.signal });
    }
  }
}

function sentence({ url, limitMs }: { readonly url: string; readonly limitMs: number }, error: unknown): string {
  const at = URL.parse(url);
  const why = error instanceof Error && error.message ? error.message : String((error as { code?: string }).code);
  return (
    `PostgreSQL at ${at?.host ?? "the address of DATABASE_URL"} could not be reached within ${limitMs / 1000} s (${why}). ` +
    "Start it, or correct DATABASE_URL."
  );
}
