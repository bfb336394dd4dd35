// Messages between the server and a session's thread.
import type { IoInfo, TensorRef, TensorValue } from "./session.ts";

export interface OpenOptions {
  readonly path: string;
  /** Tried in this order; the first that can be had is used. */
  readonly providers: readonly string[];
  readonly threads: number;
  /** Its threads spin between the steps of a run, and sleep after it. */
  readonly spins: boolean;
  /** Grows by what is asked for, not by doubling, and gives memory back: where memory is bounded. */
  readonly isMemoryTight: boolean;
  /** Beginning of the name of the file of the graph as optimised for this machine: read when it is there, else written. */
  readonly optimizedPath: string | undefined;
}

export interface Opened {
  readonly session: number;
  readonly inputs: readonly IoInfo[];
  readonly outputs: readonly IoInfo[];
  readonly provider: string;
  /** Reason for which an earlier provider was unavailable. */
  readonly refused: readonly string[];
}

export type Question =
  | { readonly kind: "open"; readonly id: number; readonly options: OpenOptions }
  | {
      readonly kind: "run";
      readonly id: number;
      readonly session: number;
      readonly feeds: Readonly<Record<string, TensorValue | TensorRef>>;
      /** Empty: all. */
      readonly outputs: readonly string[];
      readonly keep: readonly string[];
    }
  | { readonly kind: "close"; readonly session: number }
  | { readonly kind: "release"; readonly refs: readonly number[] };

export type Answer =
  | { readonly id: number; readonly opened: Opened }
  | {
      readonly id: number;
      readonly outputs: Record<string, TensorValue>;
      readonly kept: Record<string, TensorRef>;
    }
  | { readonly id: number; readonly failure: string };
