// Port for the state that the session keeps across restarts of the agent. Implemented by state/ on node:sqlite, fsynced.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { HostId } from "../../proto/ids.ts";

export interface SessionStore {
  /** Random and stored: a host keeps its name across restarts and reinstallations of the agent. */
  hostId(): HostId;
  highestEpoch(): bigint;
  /** The last whole desired set, or undefined on a fresh host. A corrupt file reads as undefined, never as empty. */
  desired(): DesiredState__Output | undefined;
  /** Durable when the promise resolves. Keeps the highest epoch seen. */
  save(desired: DesiredState__Output): Promise<void>;
  sawEpoch(epoch: bigint): Promise<void>;
  /** The last restore mark that a control plane sent; empty: none. */
  restoreMark(): string;
  sawRestoreMark(mark: string): Promise<void>;
  /** Reason for which the last control plane that replied refused this agent; empty: it accepted it. */
  fencedWhy(): string;
  sawFenced(why: string): Promise<void>;
}

/** Outcome of a command, reported again when the command is repeated. */
export interface KnownOutcome {
  readonly outcome: string;
  readonly errorCode: string;
  readonly errorMessage: string;
  readonly result: string;
}

/** Commands that this host has started: each runs once, also across restarts. Implemented by state/, fsynced. */
export interface CommandLog {
  /** Undefined: never started. */
  find(id: string): { readonly ended: KnownOutcome | undefined } | undefined;
  /** Durable when it resolves. When it rejects, the command is not started. */
  begin(id: string): Promise<void>;
  end(id: string, outcome: KnownOutcome): Promise<void>;
}
