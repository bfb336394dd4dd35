// The audit log as a chain of hashes, and files of it: one JSON object per line. The control plane writes them; `stoker audit verify`
// recomputes the chain without a server.
//   {"type":"stoker.audit","version":1,"after":0,"previous_hash":"…"}    the rows that follow come after this one
//   {"seq":1,"hash":"…","entry":{…}}
//   {"type":"head","seq":1,"hash":"…"}                                    the last row of the file
// hash = SHA-256 of "<hash of the row before>\n<seq>\n<SHA-256 of the entry's text>", all hashes in hexadecimal digits.
import { hash } from "node:crypto";

/** Content of a row. `before` and `after` are JSON texts: a number of PostgreSQL may not survive JSON.parse. */
export interface AuditContent {
  readonly id: string;
  /** ISO 8601 with microseconds. */
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly account: string | null;
  readonly ip: string;
  readonly before: string;
  readonly after: string;
  readonly note: string;
}

/** Hash before the first row. */
export const auditStart = "0".repeat(64);

/** The only text of a row: its bytes are what is hashed. */
export function auditText({ before, after, note, ...named }: AuditContent): string {
  const { id, at, actor, action, subject, account, ip } = named;
  const open = JSON.stringify({ id, at, actor, action, subject, account, ip }).slice(0, -1);
  const text = `${open},"before":${before},"after":${after},"note":${JSON.stringify(note)}}`;
  return text.replace(lineEnds, (end) => `\\u${end.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** JSON allows them within a string, but many readers of lines end one there. */
const lineEnds = /[\u0085\u2028\u2029]/g;

const textHash = (text: string): string => hash("sha256", text);
const chained = (previous: string, seq: bigint, ofText: string): string =>
  hash("sha256", `${previous}\n${seq}\n${ofText}`);

export const auditHash = (previous: string, seq: bigint, text: string): string =>
  chained(previous, seq, textHash(text));

export const auditHeader = (after: bigint, previousHash: string): string =>
  `{"type":"stoker.audit","version":1,"after":${after},"previous_hash":"${previousHash}"}\n`;
export const auditLine = (seq: bigint, rowHash: string, text: string): string =>
  `{"seq":${seq},"hash":"${rowHash}","entry":${text}}\n`;
/** `hasMore`: the range that was requested has further rows. */
export const auditFooter = (seq: bigint, rowHash: string, hasMore?: boolean): string =>
  `{"type":"head","seq":${seq},"hash":"${rowHash}"${hasMore === undefined ? "" : `,"more":${hasMore}`}}\n`;

const headerPattern = /^\{"type":"stoker\.audit","version":1,"after":(\d{1,18}),"previous_hash":"([0-9a-f]{64})"\}$/;
const linePattern = /^\{"seq":([1-9]\d{0,17}),"hash":"([0-9a-f]{64})","entry":(\{.*\})\}$/s;
const footerPattern = /^\{"type":"head","seq":(\d{1,18}),"hash":"([0-9a-f]{64})"(?:,"more":(true|false))?\}$/;

/** Undefined: another line. */
export function readAuditFooter(line: string) {
  const [found, seq = "", rowHash = "", more] = footerPattern.exec(line) ?? [];
  return found === undefined ? undefined : { seq: BigInt(seq), hash: rowHash, hasMore: more === "true" };
}

interface Row {
  readonly hash: string;
  readonly ofText: string;
  /** For messages. */
  readonly name: string;
}

export interface AuditVerdict {
  readonly rows: number;
  readonly first: bigint | undefined;
  readonly last: bigint | undefined;
  /** Hash of the last row. */
  readonly head: string;
  /** Sentences, each naming its row; empty: the chain is whole. */
  readonly problems: readonly string[];
}

/** Reads lines of files in their order and checks them at the end. */
export class AuditCheck {
  readonly #problems: string[] = [];
  readonly #rows = new Map<bigint, Row>();
  #start: { readonly after: bigint; readonly hash: string } | undefined;
  #foot: { readonly seq: bigint; readonly hash: string } | undefined;
  #highest = 0n;
  #lineCount = 0;

  /** Without its line feed. */
  push(line: string): void {
    this.#lineCount += 1;
    if (line === "") return;
    const header = headerPattern.exec(line);
    if (header) {
      this.#start ??= { after: BigInt(header[1] as string), hash: header[2] as string };
      return;
    }
    const footer = readAuditFooter(line);
    if (footer) {
      this.#foot = footer;
      return;
    }
    const row = linePattern.exec(line);
    if (row) this.#row(BigInt(row[1] as string), row[2] as string, row[3] as string);
    else this.#problems.push(`Line ${this.#lineCount} is not a line of an audit export.`);
  }

  #row(seq: bigint, rowHash: string, text: string): void {
    const name = nameOf(seq, text);
    if (this.#rows.has(seq)) {
      this.#problems.push(`${name} is there twice.`);
      return;
    }
    if (seq < this.#highest) this.#problems.push(`${name} is out of order: it stands after row ${this.#highest}.`);
    else this.#highest = seq;
    this.#rows.set(seq, { hash: rowHash, ofText: textHash(text), name });
  }

  /** `known`: a row and its hash from elsewhere, such as the head of an earlier export. */
  end(known?: { readonly seq: bigint; readonly hash: string }): AuditVerdict {
    const problems = this.#problems;
    const all = [...this.#rows].sort(([a], [b]) => (a < b ? -1 : 1));
    const [first, last] = [all[0], all.at(-1)];
    if (!this.#start) problems.push("The first line is missing: it names the row and the hash before the first row.");
    let before = this.#start?.after;
    let previous = this.#start?.hash;
    for (const [seq, row] of all) {
      if (before !== undefined && seq !== before + 1n) {
        problems.push(
          seq - before === 2n ? `Row ${before + 1n} is missing.` : `Rows ${before + 1n} to ${seq - 1n} are missing.`,
        );
        previous = undefined;
      }
      if (previous !== undefined && chained(previous, seq, row.ofText) !== row.hash)
        problems.push(`${row.name} does not match its hash: it, or the hash of the row before it, was altered.`);
      [before, previous] = [seq, row.hash];
    }
    this.#checkFoot(last);
    if (known && this.#rows.get(known.seq)?.hash !== known.hash)
      problems.push(
        `Row ${known.seq} does not have the hash that is known of it: rows up to it were altered or are missing.`,
      );
    return {
      rows: all.length,
      first: first?.[0],
      last: last?.[0],
      head: last?.[1].hash ?? this.#start?.hash ?? auditStart,
      problems,
    };
  }

  #checkFoot(last: readonly [bigint, Row] | undefined): void {
    const foot = this.#foot;
    const seq = last?.[0] ?? this.#start?.after ?? 0n;
    if (!foot) this.#problems.push("The last line is missing: rows at the end may be missing too.");
    else if (foot.seq > seq)
      this.#problems.push(
        foot.seq === seq + 1n
          ? `Row ${foot.seq} is missing at the end.`
          : `Rows ${seq + 1n} to ${foot.seq} are missing at the end.`,
      );
    else if (foot.seq < seq || (last && last[1].hash !== foot.hash))
      this.#problems.push(`The last line names row ${foot.seq} with another hash than the file has.`);
  }
}

function nameOf(seq: bigint, text: string): string {
  try {
    const { id, action } = JSON.parse(text) as { readonly id?: unknown; readonly action?: unknown };
    return `Row ${seq} (entry ${String(id)}, ${String(action).slice(0, 64)})`;
  } catch {
    return `Row ${seq}`;
  }
}
