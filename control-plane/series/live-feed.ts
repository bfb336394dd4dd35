// Present figures of accounts and of the whole installation, read once for all who watch them, while someone does.
import type { AccountId } from "../../proto/ids.ts";
import type { LiveFigures, LiveFleet, SeriesStore } from "./store.ts";

export interface LiveDocument extends LiveFigures {
  readonly atMs: number;
  /** Undefined: an account's figures. */
  readonly fleet: LiveFleet | undefined;
}

/** Empty: the whole installation. */
export type LiveScope = AccountId | "";
type Listener = (document: LiveDocument) => void;

/** A host that reported within this time counts. */
const freshMs = 15_000;

export class LiveFeed {
  readonly #store: Pick<SeriesStore, "live" | "liveFleet">;
  readonly #everyMs: number;
  readonly #listeners = new Map<LiveScope, Set<Listener>>();
  #timer: NodeJS.Timeout | undefined;
  #reading = false;

  constructor(store: Pick<SeriesStore, "live" | "liveFleet">, everyMs = 2_000) {
    this.#store = store;
    this.#everyMs = everyMs;
  }

  /** Calls `listener` with every reading; nothing while the database is unavailable. Returns how to end that. */
  subscribe(scope: LiveScope, listener: Listener): () => void {
    const listeners = this.#listeners.get(scope) ?? new Set();
    this.#listeners.set(scope, listeners.add(listener));
    this.#timer ??= setInterval(() => void this.#tick(), this.#everyMs).unref();
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#listeners.delete(scope);
      if (this.#listeners.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  /** Throws DatabaseUnavailable. */
  async read(scope: LiveScope): Promise<LiveDocument> {
    return (await this.#readAll([scope])).get(scope) as LiveDocument;
  }

  async #tick(): Promise<void> {
    if (this.#reading) return;
    this.#reading = true;
    try {
      const documents = await this.#readAll([...this.#listeners.keys()]);
      for (const [scope, document] of documents)
        for (const listener of this.#listeners.get(scope) ?? []) listener(document);
    } catch {
      // The next reading follows soon, and the store's own errors are reported where it writes.
    } finally {
      this.#reading = false;
    }
  }

  async #readAll(scopes: readonly LiveScope[]): Promise<ReadonlyMap<LiveScope, LiveDocument>> {
    const [figures, fleet] = await Promise.all([
      this.#store.live(scopes),
      scopes.includes("") ? this.#store.liveFleet(freshMs) : undefined,
    ]);
    const atMs = Date.now();
    return new Map(
      scopes.map((scope) => [
        scope,
        { atMs, ...(figures.get(scope) ?? none), fleet: scope === "" ? fleet : undefined },
      ]),
    );
  }
}

const none: LiveFigures = { seconds: 60, requests: 0, errors: 0, outputTokens: 0, firstMs: [] };
