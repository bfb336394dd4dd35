// Checks that PostgreSQL replies: `select 1` on a connection of its own. TCP does not report a frozen server.
import { setTimeout as wait } from "node:timers/promises";
import pg from "pg";
import type { Logger } from "pino";

export interface CheckOptions {
  readonly connectionString: string;
  readonly log: Logger;
  /** Longest wait for the check's reply. Together with `slowMs` of watched-pool.ts below a second: callers get 503 within it. */
  readonly replyMs?: number;
  /** The same while the check has no connection yet: connecting takes several replies and a new process of the server. */
  readonly connectMs?: number;
  /** After this time an attempt of a check is abandoned and the next one begins. */
  readonly attemptMs?: number;
}

/** Shortest time between two connects of the check in advance. */
const prepareEveryMs = 1_000;
const judgeMs = 50;

/** Connection that carries only checks. */
interface Checker {
  readonly client: pg.Client;
  isConnected: boolean;
  readonly connecting: Promise<unknown>;
}

export class ReplyCheck {
  /** A check has no reply in time. */
  isSilent = false;
  readonly #options: Required<CheckOptions>;
  readonly #onSilent: (replyMs: number) => void;
  /** Monotonic time of the last reply to any statement, errors included: it proves that PostgreSQL is alive. */
  #repliedMs = 0;
  #isChecking = false;
  #isEnded = false;
  #checker: Checker | undefined;
  #preparedMs = Number.NEGATIVE_INFINITY;

  /** `onSilent`: called when `isSilent` becomes true. */
  constructor(options: CheckOptions, onSilent: (replyMs: number) => void) {
    this.#options = { replyMs: 500, connectMs: 1_000, attemptMs: 3_000, ...options };
    this.#onSilent = onSilent;
  }

  /** Notes a reply to a statement of another connection. */
  replied(): void {
    this.#repliedMs = performance.now();
  }

  /** Connects in advance: a check should not have to wait for a connection. */
  prepare(): void {
    if (!this.#checker && !this.#isEnded && performance.now() - this.#preparedMs >= prepareEveryMs) this.#connect();
  }

  /** Runs until PostgreSQL replies. An attempt is abandoned in time: its connection may be the part that is broken. */
  async run(): Promise<void> {
    if (this.#isChecking || this.#isEnded) return;
    this.#isChecking = true;
    const { replyMs, connectMs, attemptMs, log } = this.#options;
    const startedMs = performance.now();
    let isReplied = false;
    const isLate = () => {
      const limitMs = this.#checker?.isConnected ? replyMs : connectMs;
      return !isReplied && performance.now() - Math.max(startedMs, this.#repliedMs) >= limitMs;
    };
    const giveUp = () => {
      if (!isLate() || this.isSilent || this.#isEnded) return;
      this.isSilent = true;
      this.#onSilent(replyMs);
    };
    // This process may have been stalled: read what has arrived before judging.
    const judge = () => isLate() && setImmediate(() => setImmediate(giveUp));
    const timer = setInterval(judge, judgeMs).unref();
    while (!isReplied && !this.#isEnded) {
      const attempt = new AbortController();
      const late = wait(attemptMs, false, { ref: false, signal: attempt.signal }).catch(() => false);
      isReplied = await Promise.race([this.#ping().then(() => true), late]);
      attempt.abort();
      if (!isReplied) void this.#forget(this.#checker);
    }
    clearInterval(timer);
    this.#isChecking = false;
    if (this.isSilent) log.info("database responding again");
    this.isSilent = false;
  }

  async end(): Promise<void> {
    this.#isEnded = true;
    // A frozen server never confirms the end.
    await Promise.race([this.#forget(this.#checker), wait(this.#options.attemptMs, undefined, { ref: false })]);
  }

  #connect(): Checker {
    const client = new pg.Client({
      connectionString: this.#options.connectionString,
      application_name: "stoker-check",
      connectionTimeoutMillis: this.#options.attemptMs,
      keepAlive: true,
    });
    const made: Checker = { client, isConnected: false, connecting: client.connect() };
    this.#preparedMs = performance.now();
    this.#checker = made;
    client.on("error", () => void this.#forget(made));
    client.on("end", () => void this.#forget(made));
    made.connecting.then(
      () => {
        made.isConnected = true;
        this.replied();
      },
      () => void this.#forget(made),
    );
    return made;
  }

  /** Resolves with any reply, including an error: a server that refuses a connection is not frozen. */
  async #ping(): Promise<void> {
    const current = this.#checker ?? this.#connect();
    try {
      await current.connecting;
      await current.client.query("select 1");
    } catch {
      void this.#forget(current);
    }
  }

  /** An abandoned connection fails late: then another one is current. */
  async #forget(one: Checker | undefined): Promise<void> {
    if (this.#checker === one) this.#checker = undefined;
    await one?.client.end().catch(() => {});
  }
}
