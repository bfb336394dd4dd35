// Requests of customers that an operator decides: rate limits, GPUs, top-ups and the startup program, as one list.
import type { Responses } from "../../proto/gen/responses.ts";
import { text } from "../text/operator-approvals.ts";
import { count, usd } from "../ui/format.ts";

type Gpu = Responses["GET /v1/admin/gpu-pool-requests"]["requests"][number];
type Rate = Responses["GET /v1/admin/rate-limit-requests"]["requests"][number];
type Topup = Responses["GET /v1/admin/topup-requests"]["requests"][number];
type Application = Responses["GET /v1/admin/program-applications"]["applications"][number];
type Counts = Readonly<Record<string, number>>;

export type ApprovalKind = "gpu" | "rate" | "topup" | "program";

export interface Approval {
  readonly kind: ApprovalKind;
  readonly id: string;
  readonly uid: string;
  /** Display name of the account, or the company of an application. */
  readonly name: string;
  readonly email: string;
  /** Requested change. */
  readonly what: string;
  /** GPU types of the request; empty: it is not about GPUs. */
  readonly gpuTypes: readonly string[];
  /** Reason that the customer gave. */
  readonly reason: string;
  readonly isOpen: boolean;
  readonly status: string;
  /** The operator's answer; empty: none. */
  readonly answer: string;
  /** Unix seconds. */
  readonly createdAt: number;
  readonly decidedAt: number | null;
  /** Verb of the API that grants it; the other one is `reject`. */
  readonly grant: "approve" | "fulfil";
  /** Without the verb. */
  readonly path: string;
  /** Revision that was read, so that a changed request is not decided unread. */
  readonly revision: number | undefined;
}

const pathOf = (folder: string, id: string): string => `/v1/admin/${folder}/${encodeURIComponent(id)}`;

export const ofGpu = (one: Gpu): Approval => ({
  ...ofLimit(one),
  kind: "gpu",
  what: gpusText(one.requested_max, one.requested_min),
  gpuTypes: Object.keys({ ...one.requested_max, ...one.requested_min }),
  path: pathOf("gpu-pool-requests", one.id),
});

export const ofRate = (one: Rate): Approval => ({
  ...ofLimit(one),
  kind: "rate",
  what: ratesText(one.rate_limit, one.tpm_rate_limit),
  path: pathOf("rate-limit-requests", one.id),
});

const ofLimit = (one: Gpu | Rate) => ({
  gpuTypes: [],
  id: one.id,
  uid: one.uid,
  name: one.display_name,
  email: one.email,
  reason: one.reason,
  isOpen: one.status === "open",
  status: one.status,
  answer: one.resolution_reason ?? "",
  createdAt: one.created_at,
  decidedAt: one.resolved_at,
  grant: "approve" as const,
  revision: one.revision,
});

export const ofTopup = (one: Topup): Approval => ({
  kind: "topup",
  id: one.id,
  uid: one.uid,
  name: one.display_name,
  email: one.email,
  what: text.topup(usd(one.amount_usd)),
  gpuTypes: [],
  reason: "",
  isOpen: one.state === "requested",
  status: one.state === "requested" ? "open" : one.state,
  answer: "",
  createdAt: one.created_at,
  decidedAt: null,
  grant: "fulfil",
  path: pathOf("topup-requests", one.id),
  revision: undefined,
});

export const ofApplication = (one: Application): Approval => ({
  kind: "program",
  id: one.id,
  uid: one.uid,
  name: one.company,
  email: one.email,
  what: text.program(one.company),
  gpuTypes: [],
  reason: [one.ceo, one.funding, one.founded_on, one.website, one.deal].filter((part) => part !== "").join(", "),
  isOpen: one.status === "pending",
  status: one.status === "pending" ? "open" : one.status,
  answer: one.decision_note ?? "",
  createdAt: one.created_at,
  decidedAt: one.decided_at,
  grant: "approve",
  path: pathOf("program-applications", one.id),
  revision: undefined,
});

/** `16 × H100-80GB, at least 1 × L4-24GB` */
export function gpusText(max: Counts, min: Counts = {}): string {
  const of = (counts: Counts, show: (count: number, gpu: string) => string) =>
    Object.entries(counts).map(([gpu, number]) => show(number, gpu));
  return [...of(max, text.gpus), ...of(min, text.guaranteed)].join(", ");
}

export const ratesText = (requests: number, tokens: number | null): string =>
  tokens === null ? text.requests(count(requests)) : text.rates(count(requests), count(tokens));

/** Open ones first, the oldest of them first, because it waits longest; then the newest decision. */
export const inOrderOfWork = (all: readonly Approval[]): readonly Approval[] =>
  all.toSorted((a, b) =>
    a.isOpen === b.isOpen
      ? a.isOpen
        ? a.createdAt - b.createdAt
        : (b.decidedAt ?? b.createdAt) - (a.decidedAt ?? a.createdAt)
      : a.isOpen
        ? -1
        : 1,
  );
