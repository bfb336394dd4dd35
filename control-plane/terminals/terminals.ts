// Terminals of rented containers and agent instances. A single-use ticket, requested with the account's own credential, opens
// one; the rows decide, because several control planes share them. A terminal ends with its key, session, account or container:
// the change feed says when to check its row.
import { createHash, randomBytes } from "node:crypto";
import type { HostId } from "../../proto/ids.ts";
import { refuseSuspended } from "../deployments/errors.ts";
import type { InstanceWay } from "../fleet/open-tunnel.ts";
import type { DataPath } from "../fleet/prover.ts";
import type { ServiceError } from "../service-error.ts";
import {
  notRunning,
  terminalHostUnavailable,
  terminalNotAllowed,
  terminalSubjectNotFound,
  terminalTicketInvalid,
  tooManyTerminals,
} from "./errors.ts";
import type { TerminalState, TerminalStore, TerminalSubject, TerminalVisitor } from "./store.ts";

export interface TerminalTicket {
  readonly ticket: string;
  readonly validSeconds: number;
}

export interface OpenedTerminal {
  readonly subject: TerminalSubject;
  readonly way: InstanceWay;
  /** False: it must end. */
  renew(): Promise<boolean>;
  /** Calls `check` when its key, its account or a session of that, or its container changed. Returns a function that stops it. */
  onChange(check: () => void): () => void;
  close(reason: string): Promise<void>;
}

const ticketMs = 30_000;
/** An open terminal whose row was not renewed counts as long, and is closed then. */
export const renewedMs = 60_000;
const maxUnused = 20;
/** Open terminals of one account. */
const maxOpen = 10;
const topics = ["key", "session", "account", "deployment"] as const;
type ChangeTopic = (typeof topics)[number];
const ticketForm = /^[\w-]{43}$/;

export function createTerminals(deps: {
  readonly store: TerminalStore;
  readonly dataPath: (host: HostId) => Promise<Pick<DataPath, "origin" | "ticketKey"> | undefined>;
  /** Subjects: a key, an account (of `session` too), a deployment. */
  readonly changes: { on(topic: ChangeTopic, handler: (subject: string) => void): void };
}) {
  const { store } = deps;
  /** By topic and subject. */
  const checks = new Map<string, Set<() => void>>();
  for (const topic of topics)
    deps.changes.on(topic, (subject) => {
      for (const check of [...(checks.get(`${topic} ${subject}`) ?? [])]) check();
    });

  function follow(names: readonly string[], check: () => void): () => void {
    for (const name of names) checks.set(name, (checks.get(name) ?? new Set()).add(check));
    return () => {
      for (const name of names) {
        const own = checks.get(name);
        own?.delete(check);
        if (own?.size === 0) checks.delete(name);
      }
    };
  }

  async function stateOf(subject: TerminalSubject): Promise<TerminalState> {
    const state = await store.find(subject);
    if (!state) throw terminalSubjectNotFound(subject.kind);
    return state;
  }

  return {
    /** Returns why no terminal can be opened now; undefined: one can. Throws that there is no such container. */
    async whyNot(subject: TerminalSubject): Promise<ServiceError | undefined> {
      return refusalOf(subject, await stateOf(subject));
    },
    /** Throws the errors of errors.ts, and accountSuspended. */
    async ticket(
      subject: TerminalSubject & { readonly suspendReason: string | null },
      by: TerminalVisitor,
    ): Promise<TerminalTicket> {
      refuseSuspended(subject);
      const refused = refusalOf(subject, await stateOf(subject));
      if (refused) throw refused;
      const ticket = randomBytes(32).toString("base64url");
      await store.issue(hashOf(ticket), subject, by, ticketMs, maxUnused);
      return { ticket, validSeconds: ticketMs / 1000 };
    },
    /** Uses a ticket. `ip`: the client's address, for the audit log. The caller closes what it opened. */
    async open(ticket: string, ip: string): Promise<OpenedTerminal> {
      const hash = hashOf(ticket);
      const subject = ticketForm.test(ticket)
        ? await store.open(hash, { max: maxOpen, forMs: renewedMs }, ip)
        : undefined;
      if (subject === undefined) throw terminalTicketInvalid();
      if (subject === "too_many") throw tooManyTerminals(maxOpen);
      try {
        const state = await stateOf(subject);
        const refused = refusalOf(subject, state);
        if (refused) throw refused;
        const { id, account, key } = subject;
        const names = [`session ${account}`, `account ${account}`, `deployment ${id}`];
        if (key !== undefined) names.push(`key ${key}`);
        const { host, instance } = state.at as NonNullable<TerminalState["at"]>;
        const path = await deps.dataPath(host);
        if (!path) throw terminalHostUnavailable();
        return {
          subject,
          way: { ...path, hostId: host, instance },
          renew: () => store.renew(hash, renewedMs),
          onChange: (check) => follow(names, check),
          close: (reason) => store.close(hash, reason),
        };
      } catch (error) {
        await store.close(hash, "refused");
        throw error;
      }
    },
  };
}

export type Terminals = ReturnType<typeof createTerminals>;

function refusalOf({ kind }: TerminalSubject, { status, at }: TerminalState): ServiceError | undefined {
  if (!at) return notRunning(kind, status === "deployed" ? "not on a host" : status);
  if (!at.isAllowed) return terminalNotAllowed();
  return at.isReachable ? undefined : terminalHostUnavailable();
}

/** A secret of 256 random bits needs no slow hash. */
const hashOf = (secret: string): Buffer => createHash("sha256").update(secret).digest();
