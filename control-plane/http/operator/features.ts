import type { AuditLog } from "../../accounts/audit.ts";
import type { AuditChain } from "../../accounts/audit-chain.ts";
import type { PreviewDrain } from "../../deployments/drain-preview.ts";
import type { Enrolment } from "../../fleet/enrolment.ts";
import type { HostOperations } from "../../fleet/host-operations.ts";
import type { NodeWeightsOrders } from "../../fleet/node-weights.ts";
import type { ReconcileStore } from "../../fleet/store.ts";
import type { MailServer } from "../../mail/mail-server.ts";
import type { Incidents } from "../../oversight/incidents.ts";
import type { Oversight } from "../../oversight/oversight.ts";
import type { BackupNotes } from "../../oversight/store.ts";
import type { Top } from "../../oversight/top.ts";
import type { LimitRequests } from "../../quotas/limit-requests.ts";
import type { SeriesReader } from "../../series/series.ts";

export interface OperatorFeatures {
  readonly audit: AuditLog;
  readonly auditChain: Pick<AuditChain, "export">;
  readonly enrolment: Pick<Enrolment, "createToken" | "revoke" | "adopt" | "overview">;
  /** Where agents reach this control plane: the address it listens on, and its port. */
  readonly agentAddress: () => { readonly host: string; readonly port: number };
  readonly hosts: HostOperations;
  readonly drainPreview: PreviewDrain;
  readonly nodeWeights: NodeWeightsOrders;
  readonly backupNotes: BackupNotes;
  readonly restores: Pick<ReconcileStore, "list">;
  readonly oversight: Oversight;
  readonly top: Top;
  readonly incidents: Pick<Incidents, "list">;
  readonly quotas: LimitRequests;
  readonly series: SeriesReader;
  /** Undefined: this installation sends no mails. */
  readonly mailServer: MailServer | undefined;
}
