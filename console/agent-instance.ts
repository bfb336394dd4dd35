export interface AgentInstance {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly start_ts: number;
  readonly price_per_hour: number;
  readonly last_backup_ts: number | null;
  readonly fail_reason: string | null;
  readonly version: string;
  readonly agent_type: string;
  readonly plan_id: string;
  /** backup, restore or try_restore while it runs. */
  readonly operation: string | null;
}

/** By type. */
export type AgentCatalog = Readonly<
  Record<
    string,
    {
      readonly pretty_name: string;
      readonly version: string;
      readonly has_dashboard: boolean;
      readonly plans: readonly {
        readonly id: string;
        readonly vcpu: number;
        readonly ram_gb: number;
        readonly price_per_hour: number;
      }[];
    }
  >
>;
