// Storage of tickets for terminals, and of the terminals that are open. Implemented by store/terminal-store.ts.
import type { AccountId, DeploymentId, HostId, InstanceId, KeyId, MemberId } from "../../proto/ids.ts";
import type { DeploymentStatus } from "../deployments/deployment.ts";

export type TerminalKind = "container" | "agent_instance";

/** A rented container or an agent instance. */
export interface TerminalSubject {
  readonly id: DeploymentId;
  readonly kind: TerminalKind;
  readonly account: AccountId;
}

export interface TerminalHolder extends TerminalSubject {
  /** Key that requested the ticket; undefined: a session did. */
  readonly key: KeyId | undefined;
}

export interface TerminalState {
  readonly status: DeploymentStatus;
  /** Its container on a host; undefined: it does not run. */
  readonly at:
    | {
        readonly instance: InstanceId;
        readonly host: HostId;
        /** The host's data path is verified. */
        readonly isReachable: boolean;
        /** The host's operator allows terminals. */
        readonly isAllowed: boolean;
      }
    | undefined;
}

/** Who asked for a ticket: the terminal ends with that key or session. */
export interface TerminalVisitor {
  /** The client's address, for the audit log. */
  readonly ip: string;
  readonly key: KeyId | undefined;
  /** Session id as stored in the database. */
  readonly login: Buffer | undefined;
  /** Member of an organisation: the terminal ends when they may not open one any more. */
  readonly member?: MemberId | undefined;
}

export interface TerminalStore {
  /** Undefined: the account has no such container or agent instance. */
  find(subject: TerminalSubject): Promise<TerminalState | undefined>;
  /** Stores a ticket. Removes the account's oldest unused ones beyond `max`. */
  issue(ticket: Buffer, subject: TerminalSubject, by: TerminalVisitor, forMs: number, max: number): Promise<void>;
  /**
   * Uses a ticket, once; audited with the address `ip` that used it. Undefined: unknown, used or expired, or its key, session or
   * account ended. `too_many`: the account has `max` open terminals; the ticket stays valid.
   */
  open(
    ticket: Buffer,
    limits: { readonly max: number; readonly forMs: number },
    ip: string,
  ): Promise<TerminalHolder | "too_many" | undefined>;
  /** Keeps an open terminal for `forMs`. False: its key, session, account or container ended. */
  renew(ticket: Buffer, forMs: number): Promise<boolean>;
  /** Removes an open terminal; audited with its duration. No-op if it was removed. */
  close(ticket: Buffer, reason: string): Promise<void>;
  /** Removes expired tickets, and terminals whose control plane ended without closing them. */
  sweep(): Promise<void>;
}
