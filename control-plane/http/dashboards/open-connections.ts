// Open requests and WebSockets of dashboards: limited per dashboard, each closed when its visit ends.
import type { Visit } from "../../agent-instances/dashboards.ts";
import { DashboardBusy } from "../../agent-instances/errors.ts";
import { restarting } from "../errors/errors.ts";

interface Connection {
  readonly label: string;
  readonly cookie: string;
  /** Closes the connection at once. */
  readonly cut: () => void;
  /** Asks the browser to close the connection. */
  readonly leave: () => void;
}

export class OpenConnections {
  isDraining = false;
  readonly #findVisit: (label: string, cookie: string) => Promise<Visit | undefined>;
  readonly #bounds: { readonly maxOpen: number; readonly recheckMs: number };
  readonly #open = new Set<Connection>();
  readonly #counts = new Map<string, number>();
  #recheck: NodeJS.Timeout;
  #isClosed = false;

  constructor(
    findVisit: (label: string, cookie: string) => Promise<Visit | undefined>,
    bounds: { readonly maxOpen: number; readonly recheckMs: number },
  ) {
    this.#findVisit = findVisit;
    this.#bounds = bounds;
    this.#recheck = this.#startRecheck();
  }

  /** Counts a connection as open until the returned function is called. Throws DashboardBusy, restarting. */
  hold({ label, cookie, cut, leave }: Connection): () => void {
    if (this.isDraining) throw restarting();
    const count = this.#counts.get(label) ?? 0;
    if (count >= this.#bounds.maxOpen) throw new DashboardBusy();
    this.#counts.set(label, count + 1);
    const connection = { label, cookie, cut, leave };
    this.#open.add(connection);
    return () => {
      if (!this.#open.delete(connection)) return;
      const left = (this.#counts.get(label) ?? 1) - 1;
      if (left > 0) this.#counts.set(label, left);
      else this.#counts.delete(label);
    };
  }

  /** Refuses new connections, and asks browsers to close theirs. */
  drain(): void {
    this.isDraining = true;
    for (const { leave } of [...this.#open]) leave();
  }

  /** Closes all connections at once. */
  close(): void {
    this.isDraining = true;
    this.#isClosed = true;
    clearTimeout(this.#recheck);
    for (const { cut } of [...this.#open]) cut();
  }

  #startRecheck(): NodeJS.Timeout {
    return setTimeout(() => this.#closeEndedVisits(), this.#bounds.recheckMs).unref();
  }

  async #closeEndedVisits(): Promise<void> {
    const visits = new Map([...this.#open].map((one) => [`${one.label} ${one.cookie}`, one]));
    for (const { label, cookie } of visits.values()) {
      // A failed check closes nothing.
      const visit = await this.#findVisit(label, cookie).catch(() => "unknown" as const);
      if (visit !== undefined) continue;
      for (const one of [...this.#open]) if (one.label === label && one.cookie === cookie) one.cut();
    }
    if (!this.#isClosed) this.#recheck = this.#startRecheck();
  }
}
