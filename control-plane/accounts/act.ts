/** Who does something that is audited, from where, and why. */
export interface Act {
  /** The acting account; `system` for Stoker itself. */
  readonly by: string;
  /** The client's address; empty for `system`. */
  readonly ip: string;
  readonly note: string;
}

export const bySystem = (note: string): Act => ({ by: "system", ip: "", note });
