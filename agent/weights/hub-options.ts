// Options of requests to a hub.
import type { Source } from "./source.ts";

export type HubSource = Extract<Source, { kind: "hub" }>;

export interface HubOptions {
  readonly endpoint: string;
  /** Used if the deployment has no token of its own. */
  readonly token: string | undefined;
  /** Never connect to the hub. */
  readonly isOffline?: boolean;
  readonly metadataMs?: number;
}
