// A command line without a key waits under a random id of its own; a signed-in browser says yes to that id; the next answer to
// the one who waits is a new key, once. Replicas meet in the database: a yes given to one answers a wait at another.
import { createHmac, hkdfSync, randomInt } from "node:crypto";
import type { AccountId, KeyId } from "../../proto/ids.ts";
import { networkOf } from "./attempts.ts";
import { CliLoginBusy, CliLoginTimedOut, CliLoginUsed } from "./cli-login-errors.ts";
import type { Actor, CliLoginStore } from "./store.ts";

export interface CliLogins {
  /** Makes a key for whoever waits under this id. Throws CliLoginUsed, and what making a key throws. */
  approve(actor: Actor, loginId: string): Promise<void>;
  /**
   * Resolves with a key, or with undefined when `signal` ended the wait. Throws CliLoginTimedOut after five minutes,
   * CliLoginUsed for an id that was answered or has run out, CliLoginBusy.
   */
  wait(loginId: string, ip: string, signal: AbortSignal): Promise<string | undefined>;
}

/** What the person compares: the terminal and the page show the same. */
export const codeOf = (loginId: string): string => `${loginId.slice(0, 4)}-${loginId.slice(4, 8)}`.toUpperCase();

export const loginIdForm = "^[A-Za-z0-9_-]{32}$";

interface CliLoginDeps {
  readonly store: CliLoginStore;
  readonly pepper: Buffer;
  readonly makeKey: (actor: Actor, name: string) => Promise<KeyId>;
  /** Undefined when it was ended meanwhile. */
  readonly openKey: (account: AccountId, key: KeyId) => Promise<string | undefined>;
  readonly endKey: (actor: Actor, key: KeyId) => Promise<void>;
  readonly changes: { on(topic: "cli_login", handler: (subject: string) => void): void };
  readonly unixMs: () => number;
  /** Shorter in tests. */
  readonly waitMs?: number;
}

/** A little below the five minutes after which clients and proxies give up by themselves. */
const longestWaitMs = 290_000;
/** How long a yes waits for the command line to come. */
const answerWithinMs = 600_000;
/** Asked by itself too, should a change be missed. */
const askEveryMs = 5_000;
/** Nobody has a credential here yet, so these alone bound what strangers may hold open. */
const mostWaits = 500;
const mostWaitsOfNetwork = 10;

export function createCliLogins(deps: CliLoginDeps): CliLogins {
  const { store, unixMs } = deps;
  const key = Buffer.from(hkdfSync("sha256", deps.pepper, "", "stoker cli logins", 32));
  const lookupOf = (loginId: string): Buffer => createHmac("sha256", key).update(loginId).digest();
  const waiting = new Map<string, Set<() => void>>();
  const waitsOf = new Map<string, number>();
  let waits = 0;
  deps.changes.on("cli_login", (subject) => {
    for (const wake of waiting.get(subject) ?? []) wake();
  });

  async function taken(loginId: string): Promise<string | undefined> {
    const lookup = lookupOf(loginId);
    const row = await store.takeCliLogin(lookup, unixMs());
    if (row === "unknown") return undefined;
    const apiKey = row === "over" ? undefined : await deps.openKey(row.account, row.key);
    if (apiKey === undefined) throw new CliLoginUsed();
    return apiKey;
  }

  /** Until a yes may have come: told of one, or some seconds are over. */
  function nextLook(subject: string, limitMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wakes = waiting.get(subject) ?? new Set();
      waiting.set(subject, wakes);
      const wake = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", wake);
        wakes.delete(wake);
        if (wakes.size === 0) waiting.delete(subject);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(askEveryMs, Math.max(1, limitMs)));
      wakes.add(wake);
      signal.addEventListener("abort", wake);
      if (signal.aborted) wake();
    });
  }

  async function waitFor(loginId: string, signal: AbortSignal): Promise<string | undefined> {
    const subject = lookupOf(loginId).toString("hex");
    const endMs = performance.now() + (deps.waitMs ?? longestWaitMs);
    while (!signal.aborted) {
      const leftMs = endMs - performance.now();
      // The next look begins before this one: a yes between the two is not slept over.
      const stopLooking = new AbortController();
      const look = nextLook(subject, leftMs, AbortSignal.any([signal, stopLooking.signal]));
      try {
        const apiKey = await taken(loginId);
        if (apiKey !== undefined) return apiKey;
        if (leftMs <= 0) throw new CliLoginTimedOut();
        await look;
      } finally {
        stopLooking.abort();
      }
    }
    return undefined;
  }

  return {
    async approve(actor, loginId) {
      const lookup = lookupOf(loginId);
      if (await store.hasCliLogin(lookup)) throw new CliLoginUsed();
      const made = await deps.makeKey(actor, keyName(unixMs()));
      const now = unixMs();
      const login = { lookup, account: actor.account, key: made, atMs: now, expiresAtMs: now + answerWithinMs };
      if (await store.answerCliLogin(login)) return;
      // Somebody else said yes in the same moment: a key that nobody will ever see must not stay.
      await deps.endKey(actor, made);
      throw new CliLoginUsed();
    },

    async wait(loginId, ip, signal) {
      const network = networkOf(ip);
      const own = waitsOf.get(network) ?? 0;
      if (waits >= mostWaits || own >= mostWaitsOfNetwork) throw new CliLoginBusy();
      waits += 1;
      waitsOf.set(network, own + 1);
      try {
        return await waitFor(loginId, signal);
      } finally {
        waits -= 1;
        const left = (waitsOf.get(network) ?? 1) - 1;
        if (left === 0) waitsOf.delete(network);
        else waitsOf.set(network, left);
      }
    },
  };
}

/** `cli-2026-01-31-k3f9`: tells keys apart in a list. */
function keyName(unixMs: number): string {
  const random = randomInt(36 ** 4)
    .toString(36)
    .padStart(4, "0");
  return `cli-${new Date(unixMs).toISOString().slice(0, 10)}-${random}`;
}
