import type { Responses } from "../proto/gen/responses.ts";

export type AgentInstance = Responses["GET /v1/agent/{instance_id}"];

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
