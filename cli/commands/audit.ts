import { once } from "node:events";
import { createReadStream, createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import { Readable, type Writable } from "node:stream";
import { AuditCheck, auditFooter, readAuditFooter } from "../../proto/audit-chain.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { unreadable } from "../local-file.ts";
import type { Terminal } from "../terminal.ts";

/** Rows of a request. */
const partRows = 100_000;

export function addAudit(program: Command): void {
  const audit = program.command("audit").description("files of the audit log, and the check of their chain of hashes");
  audit
    .command("export <file>")
    .description("write the audit log to a file, one JSON object per line (- for standard output)")
    .example("stoker audit export audit.jsonl --since 2026-01-01")
    .option("--since <time>", "sealed from this time on, Unix seconds or ISO 8601")
    .option("--until <time>", "sealed before this time, Unix seconds or ISO 8601")
    .option("--after <row>", "rows after this one, such as the last of an earlier file")
    .stream(exportAudit);
  audit
    .command("verify <files...>")
    .description("recompute the chain of exported files, oldest first; names altered, missing and reordered rows")
    .example("stoker audit verify audit.jsonl")
    .option("--known <row:hash>", "hash of a row from elsewhere, such as the last line of an earlier export")
    .run(verifyAudit);
}

type ExportFlags = Readonly<Record<"since" | "until" | "after", string | undefined>>;

async function exportAudit(terminal: Terminal, file: string, { after, ...times }: ExportFlags): Promise<void> {
  const given = Object.entries(times).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const out: Writable = file === "-" ? process.stdout : createWriteStream(file, { mode: 0o600 });
  const failed = once(out, "error").then(([error]) => {
    throw new CliError(`Could not write ${file}: ${(error as Error).message}.`, exitCode.failed);
  });
  const write = async (line: string): Promise<void> => {
    if (!out.write(line)) await Promise.race([once(out, "drain"), failed]);
  };
  failed.catch(() => {});
  let [from, rows] = [after, 0];
  for (let part = 0; ; part++) {
    const query = new URLSearchParams([
      ...given,
      ["limit", String(partRows)],
      ...(from === undefined ? [] : [["after", from]]),
    ] as string[][]);
    const body = await terminal.api.download(`/v1/admin/audit/export?${query}`);
    let foot: ReturnType<typeof readAuditFooter>;
    let count = 0;
    for await (const line of createInterface({
      input: Readable.fromWeb(body as Parameters<typeof Readable.fromWeb>[0]),
    })) {
      foot = readAuditFooter(line);
      const isHeader = count === 0;
      count += 1;
      if (!foot && !(isHeader && part > 0)) await write(`${line}\n`);
    }
    if (!foot) throw new CliError("The export ended early. Run it again.", exitCode.failed);
    rows += count - 2;
    from = String(foot.seq);
    if (foot.hasMore) continue;
    await write(auditFooter(foot.seq, foot.hash));
    if (file !== "-") {
      out.end();
      await Promise.race([once(out, "finish"), failed]);
      process.stderr.write(`${rows} rows to ${file}\nlast row ${foot.seq}:${foot.hash}\n`);
    }
    return;
  }
}

async function verifyAudit(terminal: Terminal, files: readonly string[], { known }: { known?: string }): Promise<void> {
  const [, seq, hash = ""] = /^(\d{1,18}):([0-9a-f]{64})$/.exec(known ?? "") ?? [];
  if (known !== undefined && seq === undefined)
    throw new CliError("--known must be a row and its hash, such as 7:9f86d0…", exitCode.wrongUsage);
  const check = new AuditCheck();
  for (const file of files) {
    const input = file === "-" ? process.stdin : createReadStream(file);
    try {
      for await (const line of createInterface({ input, crlfDelay: 0 })) check.push(line);
    } catch (cause) {
      throw new CliError(unreadable(file, cause), exitCode.wrongUsage, { cause });
    }
  }
  const { rows, first, last, head, problems } = check.end(seq === undefined ? undefined : { seq: BigInt(seq), hash });
  const result = {
    rows,
    first: first === undefined ? null : String(first),
    last: last === undefined ? null : String(last),
    head,
    problems,
  };
  if (problems.length > 0) {
    terminal.show(result, () => problems.join("\n"));
    throw new CliError(`The audit log is not whole: ${problems.length} problems.`, exitCode.failed);
  }
  terminal.show(result, () =>
    rows === 0 ? "No rows." : `Rows ${first} to ${last} are whole.\nlast row ${last}:${head}`,
  );
}
