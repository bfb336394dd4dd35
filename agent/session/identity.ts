// Who this host is: a key that never leaves its folder, and the newest certificate for it. Joins when there is none, renews at
// two thirds of its life. Files in `<data>/identity`, each replaced whole and readable by the agent alone.
import { createHash, X509Certificate } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import type { Logger } from "pino";
import type { OwnCertificate } from "../../proto/peer-tls.ts";
import { makeKey } from "./certificate-request.ts";
import { enroll, type GivenCertificate, renew } from "./enroll.ts";
import type { TlsParts } from "./wire.ts";

export interface Identity {
  /** To talk to this control plane with; joins through it when there is no certificate. Rejects with a sentence. */
  tls(address: string, signal: AbortSignal): Promise<TlsParts>;
  /** Renews in time, until aborted. */
  run(signal: AbortSignal): Promise<void>;
  /** In use now; undefined before this host has joined. */
  current(): OwnCertificate | undefined;
  /** There is another one. */
  onCertificate(listener: () => void): void;
  /** Seconds; negative once it has expired, undefined without one. */
  certificateSecondsLeft(): number | undefined;
}

export interface IdentityOptions {
  /** Made when missing. */
  readonly folder: string;
  readonly hostId: string;
  readonly hostname: string;
  readonly addresses: readonly string[];
  /** Read when needed: the file may come later than the agent, or change. Undefined: there is none. */
  readonly readToken: () => Promise<string | undefined>;
  /** One that the operator put beside the state of this very agent: tried before the other, until it is refused. */
  readonly readOwnToken?: () => Promise<string | undefined>;
  /** The control plane's time where it was heard. */
  readonly nowMs: () => number;
  readonly random: () => number;
  readonly log: Logger;
}

interface Held extends GivenCertificate {
  readonly issuedMs: number;
  /** SHA-256 of the join token it came by. */
  readonly tokenHash: string;
  readonly notAfterMs: number;
}

const maxRetryMs = 60_000;
const lookMs = 1_000;
const minWaitMs = 200;

export function createIdentity(options: IdentityOptions): Identity {
  const { folder, log, nowMs } = options;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const file = (name: string) => join(folder, name);
  let keyPem = read(file("key.pem"));
  let held = load();
  /** A token that was refused is not tried again while there is a certificate to go on with. */
  let refusedToken: string | undefined;
  let joining: Promise<void> | undefined;
  /** What `certificate.json` is to hold and does not: the disk was full. */
  let unkept: string | undefined;
  const listeners: (() => void)[] = [];

  function load(): Held | undefined {
    const text = read(file("certificate.json"));
    if (text === undefined || keyPem === undefined) return undefined;
    try {
      const kept = JSON.parse(text) as Omit<Held, "notAfterMs">;
      const certificate = new X509Certificate(kept.certificatePem);
      return { ...kept, notAfterMs: certificate.validToDate.getTime() };
    } catch (error) {
      log.warn({ err: error }, "the host's certificate is unreadable: it joins anew");
      return undefined;
    }
  }

  function keep(given: GivenCertificate, tokenHash: string): void {
    const kept = { ...given, issuedMs: nowMs(), tokenHash };
    unkept = `${JSON.stringify(kept)}\n`;
    writeUnkept();
    held = { ...kept, notAfterMs: new X509Certificate(given.certificatePem).validToDate.getTime() };
    for (const listener of listeners) listener();
  }

  /** Used all the same where it cannot be written: without it this host would be out for want of disk space. */
  function writeUnkept(): void {
    if (unkept === undefined) return;
    try {
      write(file("certificate.json"), unkept);
      unkept = undefined;
    } catch (error) {
      log.error(
        { err: error },
        "this host's new certificate could not be written down: a restart would begin with the one before",
      );
    }
  }

  const current = (): OwnCertificate | undefined =>
    held && keyPem !== undefined ? { certificatePem: held.certificatePem, keyPem, caPem: held.caPem } : undefined;

  async function joinBy(address: string, token: string, signal: AbortSignal): Promise<void> {
    if (keyPem === undefined) {
      // Not before it is written down: a host that joined with a key of its memory alone could not come back.
      const made = makeKey();
      write(file("key.pem"), made);
      keyPem = made;
    }
    const wish = { address, token, keyPem, hostId: options.hostId };
    keep(await enroll(wish, options.hostname, signal), tokenHashOf(token));
    log.info({ control: address, notAfter: new Date(held?.notAfterMs ?? 0).toISOString() }, "this host has joined");
  }

  async function ensure(address: string, signal: AbortSignal): Promise<void> {
    const own = await options.readOwnToken?.();
    const isOwnTried = own === undefined || own === refusedToken;
    const token = isOwnTried
      ? await options.readToken().catch((error: Error) => {
          if (held && held.notAfterMs > nowMs()) return undefined;
          throw new Error(`the join token cannot be read: ${error.message}`, { cause: error });
        })
      : own;
    const isValid = held !== undefined && held.notAfterMs > nowMs();
    if (token === undefined) {
      if (isValid) return;
      const what = held ? "this host's certificate has expired" : "this host has not joined";
      throw new Error(`${what}, and there is no join token: make one with \`stoker node token create\``);
    }
    if (isValid && (held?.tokenHash === tokenHashOf(token) || refusedToken === token)) return;
    try {
      await joinBy(address, token, signal);
    } catch (error) {
      // What could not be asked is asked again.
      if ((error as { code?: unknown }).code === "join_refused") refusedToken = token;
      if (!isValid) throw error;
      log.warn({ err: error }, "the new join token was not taken: the certificate of before stays in use");
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
        log.warn({ err: error, control: address }, "this host's certificate was not renewed; it is tried again");
      }
    }
    return false;
  }

  return {
    async tls(address, signal) {
      joining ??= ensure(address, signal).finally(() => {
        joining = undefined;
      });
      await joining;
      return parts();
    },
    async run(signal) {
      while (!signal.aborted) {
        const life = held ? held.notAfterMs - held.issuedMs : 0;
        const dueInMs = held ? held.issuedMs + (life * 2) / 3 - nowMs() : lookMs;
        let pauseMs = Math.min(maxRetryMs, Math.max(minWaitMs, dueInMs));
        if (held && dueInMs <= 0 && held.notAfterMs > nowMs() && !(await renewOnce(signal)))
          // Many tries fit into the last third, and agents do not come together.
          pauseMs = Math.max(minWaitMs, options.random() * Math.min(maxRetryMs, life / 30));
        writeUnkept();
        await wait(pauseMs, undefined, { signal }).catch(() => {});
      }
    },
    current,
    onCertificate: (listener) => void listeners.push(listener),
    certificateSecondsLeft: () => (held ? (held.notAfterMs - nowMs()) / 1000 : undefined),
  };
}

const tokenHashOf = (token: string): string => createHash("sha256").update(token).digest("hex");

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function write(path: string, text: string): void {
  const file = openSync(`${path}.new`, "w", 0o600);
  try {
    writeSync(file, text);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(`${path}.new`, path);
}
