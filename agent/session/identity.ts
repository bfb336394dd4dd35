// Identity of this host: a key that never leaves its folder, and the newest certificate for it. Joins if there is none, renews
// at two thirds of its life. Files in `<data>/identity`, replaced atomically and readable only by the agent.
import { createHash, X509Certificate } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { OwnCertificate } from "../../proto/peer-tls.ts";
import { readIfPresent, replaceFileSync } from "../../proto/replace-file.ts";
import { enroll, type GivenCertificate, makeKey, renew } from "./enroll.ts";
import type { TlsParts } from "./wire.ts";

/** The host has no certificate and no join token: the operator must act. */
class NotJoined extends Error {
  readonly code = "not_joined";
}

export type Identity = ReturnType<typeof createIdentity>;

export interface IdentityOptions {
  /** Created if missing. */
  readonly folder: string;
  readonly hostId: string;
  readonly hostname: string;
  readonly addresses: readonly string[];
  /** Reads the token when needed: the file may appear after the agent starts, or change. Undefined: there is none. */
  readonly readToken: () => Promise<string | undefined>;
  /** Reads the token that the operator placed in this agent's state folder: tried first, until it is refused. */
  readonly readOwnToken?: () => Promise<string | undefined>;
  /** Time of the control plane, if known. */
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly log: Logger;
}

interface Held extends GivenCertificate {
  readonly issuedMs: number;
  /** SHA-256 of the join token that it was issued for. */
  readonly tokenHash: string;
  readonly notAfterMs: number;
}

const maxRetryMs = 60_000;
const lookMs = 1_000;
const minWaitMs = 200;

export function createIdentity(options: IdentityOptions) {
  const { folder, log, nowMs } = options;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = (name: string) => join(folder, name);
  let keyPem = readIfPresent(file("key.pem"));
  let held = load();
  /** A refused token is not tried again while there is a valid certificate. */
  let refusedToken: string | undefined;
  let refusal: Error | undefined;
  let joining: Promise<void> | undefined;
  /** Content that could not be written to `certificate.json` because the disk was full. */
  let unstored: string | undefined;
  const listeners: (() => void)[] = [];

  function load(): Held | undefined {
    const text = readIfPresent(file("certificate.json"));
    if (text === undefined || keyPem === undefined) return undefined;
    try {
      const kept = JSON.parse(text) as Omit<Held, "notAfterMs">;
      const certificate = new X509Certificate(kept.certificatePem);
      return { ...kept, notAfterMs: certificate.validToDate.getTime() };
    } catch (error) {
      log.warn({ err: error }, "could not read the host's certificate; joining again");
      return undefined;
    }
  }

  function keep(given: GivenCertificate, tokenHash: string): void {
    const kept = { ...given, issuedMs: nowMs(), tokenHash };
    unstored = `${JSON.stringify(kept)}\n`;
    writeUnstored();
    held = { ...kept, notAfterMs: new X509Certificate(given.certificatePem).validToDate.getTime() };
    for (const listener of listeners) listener();
  }

  /** Writes the certificate if possible; it is used also when the disk is full, so that the host stays connected. */
  function writeUnstored(): void {
    if (unstored === undefined) return;
    try {
      replaceFileSync(file("certificate.json"), unstored);
      unstored = undefined;
    } catch (error) {
      log.error({ err: error }, "could not store this host's new certificate; a restart would use the previous one");
    }
  }

  const current = (): OwnCertificate | undefined =>
    held && keyPem !== undefined ? { certificatePem: held.certificatePem, keyPem, caPem: held.caPem } : undefined;

  async function joinBy(address: string, token: string, signal: AbortSignal): Promise<void> {
    if (keyPem === undefined) {
      // Store the key before joining: a host that loses its key could not reconnect.
      const made = makeKey();
      replaceFileSync(file("key.pem"), made);
      keyPem = made;
    }
    const request = { address, token, keyPem, hostId: options.hostId };
    keep(await enroll(request, options.hostname, signal), tokenHashOf(token));
    log.info({ control: address, notAfter: new Date(held?.notAfterMs ?? 0).toISOString() }, "this host has joined");
  }

  async function ensure(address: string, signal: AbortSignal): Promise<void> {
    const own = await options.readOwnToken?.();
    const isOwnTried = own === undefined || own === refusedToken;
    const token = isOwnTried
      ? await options.readToken().catch((error: Error) => {
          if (held && held.notAfterMs > nowMs()) return undefined;
          if (!held && (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
          throw new Error(`the join token cannot be read: ${error.message}`, { cause: error });
        })
      : own;
    const isValid = held !== undefined && held.notAfterMs > nowMs();
    if (token === undefined) {
      if (isValid) return;
      if (held)
        throw new Error(
          "this host's certificate has expired, and there is no join token: create one with `stoker node token create`",
        );
      throw (
        refusal ??
        new NotJoined("this host has no certificate and no join token: its data folder is new or was emptied")
      );
    }
    if (isValid && (held?.tokenHash === tokenHashOf(token) || refusedToken === token)) return;
    try {
      await joinBy(address, token, signal);
    } catch (error) {
      // Retry a request that did not reach the control plane.
      const isRefused = (error as { code?: unknown }).code === "join_refused";
      if (isRefused) [refusedToken, refusal] = [token, error as Error];
      if (!held && isRefused && !isOwnTried) return ensure(address, signal);
      if (!isValid) throw error;
      log.warn({ err: error }, "the new join token was refused; the previous certificate stays in use");
    }
  }

  const parts = (): TlsParts => {
    if (!held || keyPem === undefined) throw new Error("this host has no certificate");
    return { caPem: held.caPem, own: { certificatePem: held.certificatePem, keyPem } };
  };

  async function renewOnce(signal: AbortSignal): Promise<boolean> {
    if (!held || keyPem === undefined) return false;
    for (const address of options.addresses) {
      try {
        keep(await renew(address, parts(), keyPem, signal), held.tokenHash);
        log.info({ notAfter: new Date(held.notAfterMs).toISOString() }, "this host's certificate was renewed");
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        log.warn({ err: error, control: address }, "could not renew this host's certificate; will retry");
      }
    }
    return false;
  }

  return {
    /** Returns credentials for this control plane; joins through it if there is no certificate. Rejects with a sentence. */
    async tls(address: string, signal: AbortSignal) {
      joining ??= ensure(address, signal).finally(() => {
        joining = undefined;
      });
      await joining;
      return parts();
    },
    async run(signal: AbortSignal) {
      while (!signal.aborted) {
        const life = held ? held.notAfterMs - held.issuedMs : 0;
        const dueInMs = held ? held.issuedMs + (life * 2) / 3 - nowMs() : lookMs;
        let pauseMs = Math.min(maxRetryMs, Math.max(minWaitMs, dueInMs));
        if (held && dueInMs <= 0 && held.notAfterMs > nowMs() && !(await renewOnce(signal)))
          // Many attempts fit into the last third, and the agents spread out.
          pauseMs = Math.max(minWaitMs, options.random() * Math.min(maxRetryMs, life / 30));
        writeUnstored();
        await wait(pauseMs, undefined, { signal }).catch(() => {});
      }
    },
    current,
    onCertificate: (listener: () => void): void => void listeners.push(listener),
    /** Seconds until the certificate expires; negative after that, undefined without one. */
    certificateSecondsLeft: () => (held ? (held.notAfterMs - nowMs()) / 1000 : undefined),
  };
}

const tokenHashOf = (token: string): string => createHash("sha256").update(token).digest("hex");
