// What the session needs kept across a restart of the agent. Implemented by state/ on node:sqlite, fsynced.
import type { DesiredState__Output } from "../../proto/gen/stoker/fleet/v1/DesiredState.ts";
import type { HostId } from "../../proto/ids.ts";

export interface SessionStore {
  /** Made once at random and kept: a host keeps its name over restarts and reinstallations of the agent. */
  hostId(): HostId;
  highestEpoch(): bigint;
  /** The last whole desired set, or undefined on a fresh host. A corrupt file reads as undefined, never as empty. */
  desired(): DesiredState__Output | undefined;
  /** Durable when the promise resolves. Keeps the highest epoch seen. */
  save(desired: DesiredState__Output): Promise<void>;
  sawEpoch(epoch: bigint): Promise<void>;
  /** Why the last control plane that answered did not take this agent; empty: it did. */
  fencedWhy(): string;
  sawFenced(why: string): Promise<void>;
}

/** What became of a command, as it is told again. */
export interface KnownOutcome {
  readonly outcome: string;
  readonly errorCode: string;
  readonly errorMessage: string;
  /** JSON. */
  readonly result: string;
}

/** Commands that this host has begun: each is carried out once, over restarts. Implemented by state/, fsynced. */
export interface CommandLog {
  /** Undefined: never begun. */
  find(id: string): { readonly ended: KnownOutcome | undefined } | undefined;
  /** Durable when it resolves. Rejects when it cannot be: then the command is not begun. */
  begin(id: string): Promise<void>;
  end(id: string, outcome: KnownOutcome): Promise<void>;
}
