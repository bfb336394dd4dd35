// What is asked of a hub, and how it is reached.
import type { Source } from "./source.ts";

export type HubSource = Extract<Source, { kind: "hub" }>;

export interface HubOptions {
  readonly endpoint: string;
  /** Used where the deployment brings no token of its own. */
  readonly token: string | undefined;
  /** Nothing is asked of the hub at all. */
  readonly isOffline?: boolean;
  readonly metadataMs?: number;
}
