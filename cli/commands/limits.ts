// What an account does about its own limits: `stoker rate-limit` and `stoker gpu-pool`.
import type { Command } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { atLeast, counts } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

interface RateLimit {
  readonly rate_limit: number;
  readonly tpm_rate_limit: number;
}

type Counts = Readonly<Record<string, number>>;

interface GpuRequest {
  readonly id: string;
  readonly requested_max: Counts;
}

interface GpuPool {
  readonly max_limits: Counts;
  readonly min_limits: Counts;
  readonly pending_request: GpuRequest | null;
  readonly last_rejection: { readonly id: string; readonly resolution_reason: string | null } | null;
}

interface GpuFlags {
  readonly max?: Counts;
  readonly min?: Counts;
  readonly reason: string;
}

export function addLimits(program: Command): void {
  const rate = program
    .command("rate-limit")
    .alias("limit")
    .description("requests at once and tokens per minute, per model");
  rate
    .command("show")
    .description("the limits of this account")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(
        await terminal.api.call<RateLimit>("GET", "/v1/me/rate_limit"),
        (limit) => `${limit.rate_limit} requests at once, ${limit.tpm_rate_limit} tokens per minute, for each model`,
      );
    });
  rate
    .command("request")
    .description("ask the operator for more")
    .requiredOption("--requests <n>", "requests at once", atLeast(1))
    .option("--tokens <n>", "tokens per minute (default: as it is)", atLeast(1))
    .requiredOption("--reason <text>", "shown to the operator")
    .action(async (flags: { requests: number; tokens?: number; reason: string }, command: Command) => {
      const terminal = openTerminal(command);
      const body = { rate_limit: flags.requests, tpm_rate_limit: flags.tokens ?? null, reason: flags.reason };
      await terminal.api.call("POST", "/v1/me/rate_limit/request", body);
      terminal.progress("The request is open until your operator decides it.");
    });

  const gpu = program.command("gpu-pool").alias("pool").description("GPUs that this account may use");
  gpu
    .command("show")
    .description("limits by type, and what is asked for")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const pool = await terminal.api.call<GpuPool>("GET", "/v1/me/gpu_pool");
      if (terminal.json) return terminal.show(pool, String);
      const wanted = pool.pending_request?.requested_max ?? {};
      const types = [...new Set([...Object.keys(pool.max_limits), ...Object.keys(wanted)])];
      terminal.rows(types, ["GPU", "MIN", "MAX", "REQUESTED"], (type) => [
        type,
        String(pool.min_limits[type] ?? 0),
        String(pool.max_limits[type] ?? 0),
        String(wanted[type] ?? ""),
      ]);
      if (pool.pending_request) terminal.progress(`Request ${pool.pending_request.id} is open.`);
      if (pool.last_rejection) {
        terminal.progress(`Request ${pool.last_rejection.id} was rejected: ${pool.last_rejection.resolution_reason}`);
      }
    });
  gpu
    .command("request")
    .description("ask the operator for another pool; replaces what an open request asks for")
    .option("--max <gpu=n>", "most GPUs of a type (repeatable)", counts)
    .option("--min <gpu=n>", "guaranteed GPUs of a type (repeatable)", counts)
    .requiredOption("--reason <text>", "shown to the operator")
    .action(async ({ max, min, reason }: GpuFlags, command: Command) => {
      const terminal = openTerminal(command);
      const { pending_request: open } = await terminal.api.call<GpuPool>("GET", "/v1/me/gpu_pool");
      const filed = await terminal.api.call<GpuRequest>("POST", "/v1/me/gpu_pool/request", {
        reason,
        requested_max: max ?? null,
        requested_min: min ?? null,
        expected_request_id: open?.id ?? null,
      });
      terminal.show(filed, ({ id }) => id);
    });
  gpu
    .command("withdraw [id]")
    .description("withdraw the open request, or the one of this id")
    .action(async (given: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const id = given ?? (await terminal.api.call<GpuPool>("GET", "/v1/me/gpu_pool")).pending_request?.id;
      if (id === undefined) throw new CliError("No GPU request is open.", exitCode.notFound);
      await terminal.api.call("DELETE", `/v1/me/gpu_pool/request/${encodeURIComponent(id)}`);
      terminal.show({ id }, () => `${id} is withdrawn`);
    });
}
