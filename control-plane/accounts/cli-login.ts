// Sign-in of the command line: it waits under a random id of its own, a signed-in browser approves that id, and the waiting
// request receives a new key, once. Replicas meet in the database: an approval at one replica ends a wait at another.

import { createHmac, hkdfSync, randomInt } from "node:crypto";
import type { AccountId, KeyId, MemberId } from "../../proto/ids.ts";
import type { Actor } from "../act.ts";
import { notFound, rateLimited, requestTimeout } from "../service-error.ts";
import { networkOf } from "./attempts.ts";
import type { CliLoginStore } from "./store.ts";

/** Code that the person compares: the terminal and the page show the same. */
export const codeOf = (loginId: string): string => `${loginId.slice(0, 4)}-${loginId.slice(4, 8)}`.toUpperCase();

export const loginIdForm = "^[A-Za-z0-9_-]{32}$";

interface CliLoginDeps {
  readonly store: CliLoginStore;
  readonly pepper: Buffer;
  readonly makeKey: (actor: Actor, name: string, member: MemberId | null) => Promise<KeyId>;
  /** Undefined when the key was revoked. */
  readonly openKey: (account: AccountId, key: KeyId) => Promise<string | undefined>;
  readonly endKey: (actor: Actor, key: KeyId) => Promise<void>;
  readonly changes: { on(topic: "cli_login", handler: (subject: string) => void): void };
  readonly unixMs: () => number;
  /** Shorter in tests. */
  readonly waitMs?: number;
}

/** Slightly below the five minutes after which clients and proxies give up. */
const maxWaitMs = 290_000;
/** Time in which the command line must take an approved key. */
const answerWithinMs = 600_000;
/** Poll interval, in case a change notification is lost. */
const pollEveryMs = 5_000;
/** Callers have no credential here, so only these limits bound what strangers may hold open. */
const maxPendingLogins = 500;
const maxPendingLoginsPerNetwork = 10;

export function createCliLogins(deps: CliLoginDeps) {
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
    if (apiKey === undefined) throw cliLoginUsed();
    return apiKey;
  }

  /** Waits until an approval may have arrived: after a notification, or after some seconds. */
  function nextPoll(subject: string, limitMs: number, signal: AbortSignal): Promise<void> {
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
      const timer = setTimeout(wake, Math.min(pollEveryMs, Math.max(1, limitMs)));
      wakes.add(wake);
      signal.addEventListener("abort", wake);
      if (signal.aborted) wake();
    });
  }

  async function waitFor(loginId: string, signal: AbortSignal): Promise<string | undefined> {
    const subject = lookupOf(loginId).toString("hex");
    const endMs = performance.now() + (deps.waitMs ?? maxWaitMs);
    while (!signal.aborted) {
      const leftMs = endMs - performance.now();
      // Subscribe before the read, so that an approval between the two is not missed.
      const stopWaiting = new AbortController();
      const poll = nextPoll(subject, leftMs, AbortSignal.any([signal, stopWaiting.signal]));
      try {
        const apiKey = await taken(loginId);
        if (apiKey !== undefined) return apiKey;
        if (leftMs <= 0) throw cliLoginTimedOut();
        await poll;
      } finally {
        stopWaiting.abort();
      }
    }
    return undefined;
  }

  return {
    /** Creates a key of the account, or of its member, for the command line waiting under this id. Throws cliLoginUsed, and the errors of creating a key. */
    async approve(actor: Actor, loginId: string, member: MemberId | undefined = undefined): Promise<void> {
      const lookup = lookupOf(loginId);
      if (await store.hasCliLogin(lookup)) throw cliLoginUsed();
      const made = await deps.makeKey(actor, keyName(unixMs()), member ?? null);
      const now = unixMs();
      const login = { lookup, account: actor.account, key: made, atMs: now, expiresAtMs: now + answerWithinMs };
      if (await store.answerCliLogin(login)) return;
      // Another approval won the race: revoke the unused key.
      await deps.endKey(actor, made);
      throw cliLoginUsed();
    },

    /**
     * Resolves with a key, or with undefined when `signal` aborted the wait. Throws cliLoginTimedOut after five minutes,
     * cliLoginUsed for an id that was used or has expired, cliLoginBusy.
     */
    async wait(loginId: string, ip: string, signal: AbortSignal): Promise<string | undefined> {
      const network = networkOf(ip);
      const own = waitsOf.get(network) ?? 0;
      if (waits >= maxPendingLogins || own >= maxPendingLoginsPerNetwork) throw cliLoginBusy();
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

export type CliLogins = ReturnType<typeof createCliLogins>;

/** `cli-2026-01-31-k3f9`: distinguishes keys in a list. */
function keyName(unixMs: number): string {
  const random = randomInt(36 ** 4)
    .toString(36)
    .padStart(4, "0");
  return `cli-${new Date(unixMs).toISOString().slice(0, 10)}-${random}`;
}

export const cliLoginUsed = () =>
  notFound("login_used", "This login was already used or has expired. Run `stoker login` again.");

export const cliLoginTimedOut = () =>
  requestTimeout(
    "login_timed_out",
    "This login is not confirmed in a browser yet. Retry, or run `stoker login` again.",
  );

export const cliLoginBusy = () =>
  rateLimited("login_busy", "Too many pending logins. Try again in a few seconds.", {
    retryAfterSeconds: 5,
  });
