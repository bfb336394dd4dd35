// Actor of an audited action. Every part of the control plane may import this file.
import type { AccountId } from "../proto/ids.ts";

/** Actor, address and note of an audited action. */
export interface Act {
  /** The acting account, or the member id of a service account; `system` for Stoker itself. */
  readonly by: string;
  /** The client's address; empty for `system`. */
  readonly ip: string;
  readonly note: string;
}

export const bySystem = (note: string): Act => ({ by: "system", ip: "", note });

/** A person acting on their own account, for the audit log. */
export interface Actor {
  readonly account: AccountId;
  /** The client's address. */
  readonly ip: string;
  /** The member who acts in an organisation, as in `Act`; default: the account itself. */
  readonly by?: string;
}
