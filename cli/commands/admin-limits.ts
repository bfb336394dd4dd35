import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import { adminGroup, type Command } from "../command.ts";
import { countOrDefault, countsOrDefault, orNull } from "../option-values.ts";
import { accountsPath, uidOf } from "./admin-account.ts";
import { requestedText } from "./limits.ts";

type Counts = Readonly<Record<string, number>>;

type Limits = Responses["GET /v1/admin/accounts/{uid}/limits"];

interface Listed {
  readonly id: string;
  readonly uid: string;
  readonly display_name: string;
  readonly status: string;
  readonly reason: string;
  readonly requested_max?: Counts;
  readonly requested_min?: Counts;
  readonly rate_limit?: number;
  readonly tpm_rate_limit?: number | null;
}

interface SetFlags {
  readonly requests?: number | "default";
  readonly tokens?: number | "default";
  readonly weight?: number | "default";
  readonly max?: Readonly<Record<string, number | null>>;
  readonly min?: Readonly<Record<string, number | null>>;
  readonly note?: string;
}

const folders = ["gpu-pool-requests", "rate-limit-requests"] as const;

export function addAdminLimits(program: Command): void {
  const limits = adminGroup(program).command("limits").description("rate limits and GPU limits of accounts");
  limits
    .command("get <account>")
    .alias("show")
    .description("show the limits of an account (uid, e-mail address or display name)")
    .example("stoker admin limits get ada")
    .run(async (terminal, name: string) => {
      terminal.show(await terminal.api.call<Limits>("GET", pathOf(await uidOf(terminal.api, name))), limitsText);
    });
  limits
    .command("update <account>")
    .alias("set")
    .description("set limits; omitted options stay unchanged, `default` uses the installation's default")
    .example("stoker admin limits update ada --requests 400 --max H100-80GB=16")
    .option("--requests <n>", "concurrent requests per model", countOrDefault)
    .option("--tokens <n>", "tokens per minute per model", countOrDefault)
    .option("--weight <n>", "share of a busy engine relative to other accounts, 1 to 100", countOrDefault)
    .option("--max <gpu=n>", "maximum number of GPUs of a type (repeatable)", countsOrDefault)
    .option("--min <gpu=n>", "guaranteed number of GPUs of a type (repeatable)", countsOrDefault)
    .option("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, name: string, { requests, tokens, weight, max, min, note }: SetFlags) => {
      const body = {
        rate_limit: orNull(requests),
        tpm_rate_limit: orNull(tokens),
        weight: orNull(weight),
        gpu_max: max,
        gpu_min: min,
        note,
      };
      terminal.show(await terminal.api.call<Limits>("PUT", pathOf(await uidOf(terminal.api, name)), body), limitsText);
    });
  limits
    .command("requests")
    .description("list open requests for higher limits")
    .example("stoker admin limits requests")
    .option("--all", "include decided and withdrawn requests")
    .run(async (terminal, { all = false }: { all?: boolean }) => {
      const pages = await Promise.all(
        folders.map((folder) => terminal.api.call<{ requests: readonly Listed[] }>("GET", `/v1/admin/${folder}`)),
      );
      const found = pages.flatMap(({ requests }) => requests).filter((one) => all || one.status === "open");
      terminal.rows(found, {
        ID: "id",
        ACCOUNT: (one) => `${one.display_name} (${one.uid})`,
        STATUS: "status",
        REQUESTED: (one) => requestedText({ ...one, max: one.requested_max, min: one.requested_min }),
        REASON: "reason",
      });
    });
  for (const verb of ["approve", "reject"] as const) {
    limits
      .command(`${verb} <request>`)
      .example(`stoker admin limits ${verb} gpr_01 --note checked`)
      .description(verb === "approve" ? "approve a request" : "reject a request")
      .requiredOption("--note <text>", "reason, shown to the account and recorded in the audit log")
      .run(async (terminal, id: string, { note }: { note: string }) => {
        const folder = id.startsWith("gpr_") ? folders[0] : id.startsWith("rlr_") ? folders[1] : undefined;
        if (!folder)
          throw new CliError(`Invalid request id ${id}. It must start with gpr_ or rlr_.`, exitCode.wrongUsage);
        await terminal.api.call("POST", `/v1/admin/${folder}/${encodeURIComponent(id)}/${verb}`, { note });
        terminal.show({ id, decision: verb }, () => `${id}: ${verb === "approve" ? "approved" : "rejected"}`);
      });
  }
}

const pathOf = (uid: string) => `${accountsPath}/${uid}/limits`;

function limitsText({
  rate_limit: requests,
  tpm_rate_limit: tokens,
  weight,
  gpu_max: max,
  gpu_min: min,
}: Limits): string {
  const rates = `${requests} concurrent requests and ${tokens} tokens per minute for each model, weight ${weight}`;
  return [rates, ...Object.entries(max).map(([gpu, count]) => `${gpu}: ${min[gpu] ?? 0} to ${count}`)].join("\n");
}
