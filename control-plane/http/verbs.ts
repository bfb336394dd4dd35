// What the edge asks of the rest of the control plane. main.ts hands over the features' own functions in these shapes.

import type { Logger } from "pino";
import type { Registry } from "prom-client";
import type { AccountId, DeploymentId, InstanceId, KeyId } from "../../proto/ids.ts";
import type { SuspendReason } from "../../proto/suspend-reason.ts";
import type { Act } from "../accounts/act.ts";
import type { AccountChange, AccountDetail, AccountPage } from "../accounts/admin-accounts.ts";
import type { CreditWish } from "../accounts/admin-credit.ts";
import type { ApiTokens } from "../accounts/api-tokens.ts";
import type { Applications } from "../accounts/applications.ts";
import type { AuditFilter, AuditPage } from "../accounts/audit.ts";
import type { Authenticator, Caller } from "../accounts/caller.ts";
import type { CliLogins } from "../accounts/cli-login.ts";
import type { AccountWish, CreatedAccount } from "../accounts/create-account.ts";
import type { DeleteAccount } from "../accounts/delete-account.ts";
import type { Idempotency } from "../accounts/idempotency.ts";
import type { Profiles } from "../accounts/profile.ts";
import type { ScopedJwts } from "../accounts/scoped-jwt.ts";
import type { Sessions } from "../accounts/sessions.ts";
import type { SignIn } from "../accounts/sign-in.ts";
import type { SshKeys } from "../accounts/ssh-keys.ts";
import type { AgentInstances } from "../agent-instances/agent-instances.ts";
import type { AgentBackups } from "../agent-instances/backups.ts";
import type { Dashboards } from "../agent-instances/dashboards.ts";
import type { Voices } from "../assets/voices.ts";
import type { Batches } from "../batches/batches.ts";
import type { RunLine } from "../batches/line.ts";
import type { Charges } from "../billing/charges.ts";
import type { Checklists } from "../billing/checklist.ts";
import type { Discounts } from "../billing/discounts.ts";
import type { InvoiceQueries } from "../billing/invoice-queries.ts";
import type { Limits } from "../billing/limits.ts";
import type { MoneyOverviewStore } from "../billing/money-overview.ts";
import type { Paying } from "../billing/paying.ts";
import type { PriceBook } from "../billing/price-book.ts";
import type { RequestLog } from "../billing/request-log.ts";
import type { UsageDays } from "../billing/usage-days.ts";
import type { UsageQueries } from "../billing/usage-queries.ts";
import type { ModelRecords } from "../catalog/model-records.ts";
import type { OfferedModel } from "../catalog/store.ts";
import type { Offer } from "../containers/availability.ts";
import type { Container } from "../containers/container.ts";
import type { ContainerRequest } from "../containers/create.ts";
import type { Adapters } from "../deployments/adapters.ts";
import type { DryRun, GpuOffer, NewDryRun } from "../deployments/availability.ts";
import type { SettingsUpdate } from "../deployments/change.ts";
import type { DeployRequest } from "../deployments/create.ts";
import type { DeployProvider, ProvidedModel } from "../deployments/create-by.ts";
import type { ExternalRequest } from "../deployments/create-external.ts";
import type { HfRequest } from "../deployments/create-hf.ts";
import type { Deployment, DeploymentStatus } from "../deployments/deployment.ts";
import type { LogLine, LogQuery } from "../deployments/logs.ts";
import type { UseSeries, UseStats } from "../deployments/store.ts";
import type { Files } from "../files/files.ts";
import type { Dial } from "../fleet/dial.ts";
import type { Enrolment } from "../fleet/enrolment.ts";
import type { HostView } from "../fleet/host.ts";
import type { HostOperations } from "../fleet/host-operations.ts";
import type { AgedLive } from "../fleet/live.ts";
import type { NodeWeightsVerbs } from "../fleet/node-weights.ts";
import type { ByteRoom } from "../inference/byte-room.ts";
import type { Spine } from "../inference/complete.ts";
import type { Deadlines } from "../inference/deadlines.ts";
import type { LimitDesk } from "../quotas/limit-desk.ts";
import type { Webhooks } from "../webhooks/webhooks.ts";
import type { DashboardBounds } from "./dashboards/dashboard-edge.ts";

export interface DeploymentVerbs {
  /** Throws the errors of deployments/errors.ts, as all of these do. */
  createLlm(caller: Caller, request: DeployRequest): Promise<Deployment>;
  get(caller: Caller, id: DeploymentId): Promise<Deployment>;
  /** All, failed and deleted included, without `statuses`. */
  list(caller: Caller, statuses: readonly DeploymentStatus[] | undefined): Promise<readonly Deployment[]>;
  update(caller: Caller, id: DeploymentId, update: SettingsUpdate): Promise<void>;
  remove(caller: Caller, id: DeploymentId): Promise<void>;
  stop(caller: Caller, id: DeploymentId): Promise<void>;
  start(caller: Caller, id: DeploymentId): Promise<void>;
  /** A hub model of any task. */
  createHf(caller: Caller, request: HfRequest): Promise<Deployment>;
  createBy(caller: Caller, provider: DeployProvider, request: ProvidedModel): Promise<Deployment>;
  requestCounts(
    caller: Caller,
    fromMs: number,
    toMs: number,
  ): Promise<readonly { readonly modelName: string; readonly requests: number }[]>;
  /** Throws also DeploymentGone. */
  use(
    caller: Caller,
    id: DeploymentId,
    fromMs: number,
    toMs: number,
  ): Promise<{ readonly deployment: Deployment; readonly use: UseStats }>;
  /** The same in `steps` equal parts. Throws also DeploymentGone. */
  series(caller: Caller, id: DeploymentId, fromMs: number, toMs: number, steps: number): Promise<UseSeries>;
  /** Ascending, by instance. */
  instanceLogs(
    caller: Caller,
    id: DeploymentId,
    query: LogQuery,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<InstanceId, readonly LogLine[]>>;
  /** Ascending, of all instances together. */
  logs(caller: Caller, id: DeploymentId, query: LogQuery, signal: AbortSignal): Promise<readonly LogLine[]>;
}

export interface PlacementVerbs {
  /** Every size of GPUs that some host has. Throws BaseModelUnknown. */
  gpus(caller: Caller, need: { readonly source: string; readonly baseModel: string }): Promise<readonly GpuOffer[]>;
  /** Of a deployment that is not made. Throws as making it would, but for a taken name and limits of GPUs. */
  dryRunNew(caller: Caller, request: DeployRequest): Promise<NewDryRun>;
  /** Of one more instance. Throws DeploymentNotFound. */
  dryRun(caller: Caller, id: DeploymentId): Promise<DryRun>;
}

/** All throw the errors of containers/errors.ts. */
export interface ContainerVerbs {
  /** Throws also AccountSuspended, NoFunds. `ip`: the client's, for the audit log. */
  create(caller: Caller, request: ContainerRequest, ip: string): Promise<DeploymentId>;
  list(caller: Caller, state: "active" | "inactive"): Promise<readonly Container[]>;
  get(caller: Caller, id: DeploymentId): Promise<Container>;
  rename(caller: Caller, id: DeploymentId, name: string): Promise<Container>;
  remove(caller: Caller, id: DeploymentId, ip: string): Promise<void>;
  offered(caller: Caller): Promise<{ readonly images: readonly string[]; readonly gpus: readonly Offer[] }>;
}

export interface AccountVerbs {
  /** Throws AccountNameTaken, BadDisplayName. */
  create(wish: AccountWish): Promise<CreatedAccount>;
  /** A key of that account, by its secret or its id. */
  findOwnKey(account: AccountId, secretOrId: string): Promise<KeyId | undefined>;
}

export interface NodeView extends HostView {
  /** Its last figures and how old they are; undefined before the first report. */
  readonly figures: AgedLive | undefined;
  readonly instances: readonly {
    readonly id: InstanceId;
    readonly deployId: DeploymentId;
    /** Requests of this replica on it. */
    readonly inFlight: number;
  }[];
}

export interface AdminVerbs {
  /** Rates in nano-USD per million tokens. Throws OfferRefused, OfferedDeploymentUnknown. */
  offerModel(offer: {
    readonly name: string;
    readonly deployId: DeploymentId;
    readonly description: string;
    readonly rates: OfferedModel["rates"];
  }): Promise<OfferedModel>;
  createExternal(caller: Caller, request: ExternalRequest): Promise<Deployment>;
  nodes(): Promise<readonly NodeView[]>;
  /** By id or name. Throws NodeNotFound. */
  node(idOrName: string): Promise<NodeView>;
  /** Puts GPUs that were cordoned for a fault back into use; without `gpu`: all. Throws NodeNotFound, NothingCordoned. */
  uncordon(idOrName: string, gpu: string | undefined, act: Act): Promise<NodeView>;
}

/** What an operator does to accounts. All throw AccountNotFound for an unknown one, and AccountDeleted where they would change one. */
export interface OperatorVerbs {
  /** Newest first. Throws BadCursor. */
  accounts(query: string, cursor: string | undefined, limit: number): Promise<AccountPage>;
  /** Also one that was deleted. */
  account(account: AccountId): Promise<AccountDetail>;
  /** Throws LastAdmin. */
  changeAccount(account: AccountId, change: AccountChange, act: Act): Promise<AccountDetail>;
  /** Throws AccountWithoutFunds, CreditRefused, CreditReferenceTaken. */
  credit(wish: CreditWish, act: Act): Promise<void>;
  suspend(account: AccountId, reason: SuspendReason, act: Act): Promise<void>;
  /** Without a reason: all. Throws NotSuspended. */
  lift(account: AccountId, reason: SuspendReason | undefined, act: Act): Promise<void>;
  /** Newest first. Throws BadCursor. */
  audit(filter: AuditFilter, cursor: string | undefined, limit: number): Promise<AuditPage>;
}

export type Readiness = { readonly isReady: true } | { readonly isReady: false; readonly reasons: readonly string[] };

export interface HttpDeps {
  readonly authenticator: Authenticator;
  /** Without the parts that the edge makes itself. */
  readonly spine: Omit<Spine, "metrics" | "upstreams" | "deadlines" | "limits" | "unixMs"> &
    Partial<Pick<Spine, "limits">>;
  /** To data paths of hosts. */
  readonly dial: Dial;
  /** Of all requests together. */
  readonly bodies: ByteRoom;
  /** Where bodies that stall are noticed; undefined: with a clock of the edge's own. Its owner closes it. */
  readonly bodyWaits?: Deadlines;
  readonly deployments: DeploymentVerbs;
  readonly modelRecords: ModelRecords;
  readonly adapters: Adapters;
  readonly placement: PlacementVerbs;
  readonly containers: ContainerVerbs;
  readonly agentInstances: AgentInstances;
  readonly agentBackups: Omit<AgentBackups, "settle" | "tend" | "sweepDeleted">;
  /** Undefined: there is no address for dashboards, and every host's name is the API's. */
  readonly dashboards: Dashboards | undefined;
  /** Undefined: those of the edge itself. */
  readonly dashboardBounds?: Partial<DashboardBounds>;
  readonly accounts: AccountVerbs;
  readonly profiles: Profiles;
  readonly sshKeys: SshKeys;
  readonly voices: Voices;
  /** Speaks where a request names no model; undefined: one that is served. */
  readonly speechModel: string | undefined;
  readonly tokens: ApiTokens;
  readonly sessions: Sessions;
  readonly signIn: SignIn;
  readonly cliLogins: CliLogins;
  readonly deleteAccount: DeleteAccount;
  /** Addresses and networks of the proxies whose forwarded address, scheme and host count. */
  readonly trustedProxies: readonly string[];
  readonly scopedJwts: ScopedJwts;
  readonly idempotency: Idempotency;
  readonly usage: UsageQueries;
  readonly usageDays: UsageDays;
  readonly requestLog: RequestLog;
  readonly checklists: Checklists;
  readonly invoices: InvoiceQueries;
  readonly limits: Limits;
  readonly paying: Paying;
  readonly moneyOverview: MoneyOverviewStore;
  readonly charges: Pick<Charges, "requests" | "fulfil" | "reject">;
  /** Scheme, host and port under which clients reach this control plane; undefined: as each request says. */
  readonly publicUrl: string | undefined;
  /** Whether anybody may make an account. */
  readonly isSignUpOpen: boolean;
  readonly admin: AdminVerbs;
  readonly enrolment: Pick<Enrolment, "createToken" | "revoke" | "adopt">;
  readonly nodeWeights: NodeWeightsVerbs;
  readonly hosts: HostOperations;
  readonly operator: OperatorVerbs;
  readonly quotas: LimitDesk;
  readonly applications: Applications;
  readonly webhooks: Webhooks;
  readonly batches: Batches & {
    /** Lines run by it from now on. */
    runWith(run: RunLine): void;
  };
  /** The spine as lines of batches take it: their own price and limits. */
  readonly spineOfLines: (spine: Spine) => Spine;
  readonly files: Omit<Files, "write" | "sweep">;
  readonly prices: PriceBook;
  readonly discounts: Pick<Discounts, "list" | "create" | "end">;
  /** From memory: never asks the database. */
  readonly readiness: () => Readiness;
  readonly registry: Registry;
  /** With an asynchronous destination: one line per request. */
  readonly log: Logger;
  /** Of the product, for `GET /cli/version`. */
  readonly version: string;
}
