// Identity of this host: a key that never leaves its folder, and the newest certificate for it. Joins if there is none, renews
// at two thirds of its life. Files in `<data>/identity`, replaced atomically and readable only by the agent.
import { createHash, X509Certificate } from "node:crypto";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import type { OwnCertificate } from "../../proto/peer-tls.ts";
import { readIfPresent, replaceFileSync } from "../../proto/replace-file.ts";
import { enroll, type GivenCertificate, makeKey, renew } from "./enroll.ts";
import type { TlsParts } from "./wire.ts";

/** The host has no certificate and no join token: the operator must act. */
class NotJoined extends Error {
  readonly code = "not_joined";
}

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

export class Identity {
  readonly #options: IdentityOptions;
  readonly #nowMs: () => number;
  readonly #log: Logger;
  #keyPem: string | undefined;
  #held: Held | undefined;
  /** A refused token is not tried again while there is a valid certificate. */
  #refusedToken: string | undefined;
  #refusal: Error | undefined;
  #joining: Promise<void> | undefined;
  /** Content that could not be written to `certificate.json` because the disk was full. */
  #unstored: string | undefined;
  readonly #listeners: (() => void)[] = [];

  constructor(options: IdentityOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs;
    this.#log = options.log;
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    this.#keyPem = readIfPresent(this.#file("key.pem"));
    this.#held = this.#load();
  }

  #file(name: string): string {
    return join(this.#options.folder, name);
  }

  #load(): Held | undefined {
    const text = readIfPresent(this.#file("certificate.json"));
    if (text === undefined || this.#keyPem === undefined) return undefined;
    try {
      const kept = JSON.parse(text) as Omit<Held, "notAfterMs">;
      const certificate = new X509Certificate(kept.certificatePem);
      return { ...kept, notAfterMs: certificate.validToDate.getTime() };
    } catch (error) {
      this.#log.warn({ err: error }, "could not read the host's certificate; joining again");
      return undefined;
    }
  }

  #keep(given: GivenCertificate, tokenHash: string): void {
    const kept = { ...given, issuedMs: this.#nowMs(), tokenHash };
    this.#unstored = `${JSON.stringify(kept)}\n`;
    this.#writeUnstored();
    this.#held = { ...kept, notAfterMs: new X509Certificate(given.certificatePem).validToDate.getTime() };
    for (const listener of this.#listeners) listener();
  }

  /** Writes the certificate if possible; it is used also when the disk is full, so that the host stays connected. */
  #writeUnstored(): void {
    if (this.#unstored === undefined) return;
    try {
      replaceFileSync(this.#file("certificate.json"), this.#unstored);
      this.#unstored = undefined;
    } catch (error) {
      this.#log.error(
        { err: error },
        "could not store this host's new certificate; a restart would use the previous one",
      );
    }
  }

  async #joinBy(address: string, token: string, signal: AbortSignal): Promise<void> {
    if (this.#keyPem === undefined) {
      // Store the key before joining: a host that loses its key could not reconnect.
      const made = makeKey();
      replaceFileSync(this.#file("key.pem"), made);
      this.#keyPem = made;
    }
    const request = { address, token, keyPem: this.#keyPem, hostId: this.#options.hostId };
    this.#keep(await enroll(request, this.#options.hostname, signal), tokenHashOf(token));
    this.#log.info(
      { control: address, notAfter: new Date(this.#held?.notAfterMs ?? 0).toISOString() },
      "this host has joined",
    );
  }

  async #ensure(address: string, signal: AbortSignal): Promise<void> {
    const own = await this.#options.readOwnToken?.();
    const isOwnTried = own === undefined || own === this.#refusedToken;
    const token = isOwnTried
      ? await this.#options.readToken().catch((error: Error) => {
          if (this.#held && this.#held.notAfterMs > this.#nowMs()) return undefined;
          if (!this.#held && (error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
          throw new Error(`the join token cannot be read: ${error.message}`, { cause: error });
        })
      : own;
    const isValid = this.#held !== undefined && this.#held.notAfterMs > this.#nowMs();
    if (token === undefined) {
      if (isValid) return;
      if (this.#held)
        throw new Error(
          "this host's certificate has expired, and there is no join token: create one with `stoker node token create`",
        );
      throw (
        this.#refusal ??
        new NotJoined("this host has no certificate and no join token: its data folder is new or was emptied")
      );
    }
    if (isValid && (this.#held?.tokenHash === tokenHashOf(token) || this.#refusedToken === token)) return;
    try {
      await this.#joinBy(address, token, signal);
    } catch (error) {
      // Retry a request that did not reach the control plane.
      const isRefused = (error as { code?: unknown }).code === "join_refused";
      if (isRefused) [this.#refusedToken, this.#refusal] = [token, error as Error];
      if (!this.#held && isRefused && !isOwnTried) return this.#ensure(address, signal);
      if (!isValid) throw error;
      this.#log.warn({ err: error }, "the new join token was refused; the previous certificate stays in use");
    }
  }

  #parts(): TlsParts {
    if (!this.#held || this.#keyPem === undefined) throw new Error("this host has no certificate");
    return { caPem: this.#held.caPem, own: { certificatePem: this.#held.certificatePem, keyPem: this.#keyPem } };
  }

  async #renewOnce(signal: AbortSignal): Promise<boolean> {
    if (!this.#held || this.#keyPem === undefined) return false;
    for (const address of this.#options.addresses) {
      try {
        this.#keep(await renew(address, this.#parts(), this.#keyPem, signal), this.#held.tokenHash);
        this.#log.info(
          { notAfter: new Date(this.#held.notAfterMs).toISOString() },
          "this host's certificate was renewed",
        );
        return true;
      } catch (error) {
        if (signal.aborted) return false;
        this.#log.warn({ err: error, control: address }, "could not renew this host's certificate; will retry");
      }
    }
    return false;
  }

  /** Returns credentials for this control plane; joins through it if there is no certificate. Rejects with a sentence. */
  async tls(address: string, signal: AbortSignal) {
    this.#joining ??= this.#ensure(address, signal).finally(() => {
      this.#joining = undefined;
    });
    await this.#joining;
    return this.#parts();
  }

  async run(signal: AbortSignal) {
    while (!signal.aborted) {
      const life = this.#held ? this.#held.notAfterMs - this.#held.issuedMs : 0;
      const dueInMs = this.#held ? this.#held.issuedMs + (life * 2) / 3 - this.#nowMs() : lookMs;
      let pauseMs = Math.min(maxRetryMs, Math.max(minWaitMs, dueInMs));
      if (this.#held && dueInMs <= 0 && this.#held.notAfterMs > this.#nowMs() && !(await this.#renewOnce(signal)))
        // Many attempts fit into the last third, and the agents spread out.
        pauseMs = Math.max(minWaitMs, this.#options.random() * Math.min(maxRetryMs, life / 30));
      this.#writeUnstored();
      await pause(pauseMs, signal);
    }
  }

  readonly current = (): OwnCertificate | undefined =>
    this.#held && this.#keyPem !== undefined
      ? { certificatePem: this.#held.certificatePem, keyPem: this.#keyPem, caPem: this.#held.caPem }
      : undefined;

  readonly onCertificate = (listener: () => void): void => void this.#listeners.push(listener);

  /** Seconds until the certificate expires; negative after that, undefined without one. */
  readonly certificateSecondsLeft = () => (this.#held ? (this.#held.notAfterMs - this.#nowMs()) / 1000 : undefined);
}

const tokenHashOf = (token: string): string => createHash("sha256").update(token).digest("hex");
