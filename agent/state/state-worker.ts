// The thread that owns the database. Everything that arrived while the last commit ran is the next transaction.
// A batch that cannot be written is kept and tried again: nothing that was accepted is ever dropped.
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { unreachable } from "../../proto/unreachable.ts";
import { type Database, isCorrupt, moveAside, openDatabase } from "./database.ts";
import { type FromWorker, readEnds, type ToWorker, type Write } from "./state-messages.ts";

const retryMs = 500;
const { path } = workerData as { readonly path: string };
if (!parentPort) throw new Error("state-worker.ts runs as a worker thread");
const port = parentPort;
const say = (message: FromWorker) => port.postMessage(message);
const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

let queue: Write[] = [];
/** Records, as lines. */
let ends = "";
let questions: { readonly query: number; readonly answer: (db: Database) => FromWorker }[] = [];
let through = 0;
let lastId = 0;
let mustLose = true;
let isClosing = false;
let isFailing = false;
let retry: NodeJS.Timeout | undefined;
/** Undefined from the moment a file turns out to be corrupt until a fresh one is open. */
let db: Database | undefined;

function open(): Database {
  try {
    return openDatabase(path, Date.now);
  } catch (error) {
    if (!isCorrupt(error)) throw error;
    say({ kind: "moved_aside", to: moveAside(path, Date.now()), reason: reasonOf(error) });
    return openDatabase(path, Date.now);
  }
}

/** The number of start rows that became records of reason `lost`. Throws when the batch could not be written. */
function commit(): number {
  try {
    db ??= open();
    // Before the first write of this life: later start rows are of requests that still run.
    const lost = mustLose ? db.loseStarts() : 0;
    mustLose = false;
    // Start rows and acknowledgements may be lost with the machine: both only cause a harmless repetition.
    const durable = ends !== "" || queue.some((w) => w[0] === "set");
    if (queue.length > 0 || ends !== "") lastId = db.write(queue, readEnds(ends), durable);
    queue = [];
    ends = "";
    return lost;
  } catch (error) {
    if (isCorrupt(error)) {
      db?.close();
      db = undefined;
    }
    throw error;
  }
}

function run(): void {
  clearTimeout(retry);
  try {
    const hadWork = queue.length > 0 || ends !== "" || isFailing;
    commit();
    isFailing = false;
    if (hadWork && db) say({ kind: "written", through, lastId, depth: db.depth() });
  } catch (error) {
    isFailing = true;
    say({ kind: "failing", reason: reasonOf(error) });
    retry = setTimeout(run, retryMs);
  }
  answerQuestions();
  if (!isClosing) return;
  clearTimeout(retry);
  db?.close();
  say({ kind: "closed" });
  port.close();
}

function answerQuestions(): void {
  const asked = questions;
  questions = [];
  for (const { query, answer } of asked) {
    try {
      if (!db) throw new Error("the state file was corrupt and a fresh one cannot be opened yet");
      say(answer(db));
    } catch (error) {
      say({ kind: "unanswered", query, reason: reasonOf(error) });
    }
  }
}

function take(message: ToWorker): void {
  switch (message.kind) {
    case "write":
      for (const write of message.writes) queue.push(write);
      ends += message.ends;
      through = message.through;
      return;
    case "pending": {
      const { query, limit } = message;
      questions.push({ query, answer: (open) => ({ kind: "rows", query, rows: open.pending(limit) }) });
      return;
    }
    case "leases": {
      const { query } = message;
      questions.push({ query, answer: (open) => ({ kind: "lease_ids", query, ids: open.leaseIds() }) });
      return;
    }
    case "close":
      isClosing = true;
      return;
    default:
      unreachable(message);
  }
}

function listen(): void {
  port.on("message", (first: ToWorker) => {
    take(first);
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) take(next.message);
    // While writes fail only the timer tries again: a full disk is not hammered once per request.
    if (!isFailing || isClosing) run();
    else answerQuestions();
  });
}

try {
  db = open();
  const meta = db.meta();
  let lost = 0;
  try {
    lost = commit();
  } catch (error) {
    isFailing = true;
    say({ kind: "failing", reason: reasonOf(error) });
    retry = setTimeout(run, retryMs);
  }
  say({ kind: "opened", meta, lost, depth: db.depth() });
  listen();
} catch (error) {
  say({ kind: "not_opened", reason: reasonOf(error) });
}
