// Table types for Kysely. bigint columns arrive as bigint (store/database.ts sets the parser); times are timestamptz.
// Money is nano-USD. Every table that a customer can see carries account_id.
import type { AccountsTables } from "./schema/accounts.ts";
import type { AdaptersTables } from "./schema/adapters.ts";
import type { AgentInstancesTables } from "./schema/agent-instances.ts";
import type { DeploymentsTables } from "./schema/deployments.ts";
import type { EnrolmentTables } from "./schema/enrolment.ts";
import type { FilesTables } from "./schema/files.ts";
import type { FleetTables } from "./schema/fleet.ts";
import type { GpuTimeTables } from "./schema/gpu-time.ts";
import type { HostOperationsTables } from "./schema/host-operations.ts";
import type { IdempotencyTables } from "./schema/idempotency.ts";
import type { KekTables } from "./schema/kek.ts";
import type { ModelMetaTables } from "./schema/model-meta.ts";
import type { MoneyTables } from "./schema/money.ts";
import type { NodeFactsTables } from "./schema/node-facts.ts";
import type { NodeWeightsTables } from "./schema/node-weights.ts";
import type { PaymentTables } from "./schema/payments.ts";
import type { PlacementTables } from "./schema/placement.ts";
import type { QuotasTables } from "./schema/quotas.ts";
import type { VoicesTables } from "./schema/voices.ts";
import type { WebhooksTables } from "./schema/webhooks.ts";

export interface Database
  extends AccountsTables,
    MoneyTables,
    FleetTables,
    DeploymentsTables,
    QuotasTables,
    PaymentTables,
    IdempotencyTables,
    GpuTimeTables,
    KekTables,
    EnrolmentTables,
    NodeFactsTables,
    NodeWeightsTables,
    PlacementTables,
    HostOperationsTables,
    FilesTables,
    AdaptersTables,
    AgentInstancesTables,
    ModelMetaTables,
    VoicesTables,
    WebhooksTables {}
