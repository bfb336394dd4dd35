// Database thread. Everything that arrives while a commit runs is the next transaction. A batch that cannot be written is kept
// and retried: no accepted record is ever dropped.
import { parentPort, receiveMessageOnPort, workerData } from "node:worker_threads";
import { unreachable } from "../../proto/unreachable.ts";
import {
  type Database,
  isCorrupt,
  isDiskProblem,
  isIoError,
  type KeepLimits,
  moveAside,
  openDatabase,
} from "./database.ts";
import { createDiskReserve } from "./disk-reserve.ts";
import { type FromWorker, type Resend, readEnds, type ToWorker, type Write } from "./state-messages.ts";

type Answered = Extract<FromWorker, { kind: "answered" }>;

const retryMs = 500;
const { path, keep } = workerData as { readonly path: string; readonly keep: KeepLimits };
if (!parentPort) throw new Error("state-worker.ts runs as a worker thread");
const port = parentPort;
const say = (message: FromWorker) => port.postMessage(message);
const reasonOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

let queue: Write[] = [];
let ends = "";
/** An answer of undefined is given later. */
let questions: { readonly query: number; readonly answer: (db: Database) => Answered["answer"] | undefined }[] = [];
/** Queries for a resend whose kept records are still being made pending. */
let resends: { readonly query: number; readonly id: string }[] = [];
let isMoveDue = false;
let through = 0;
let lastId = 0;
let mustLose = true;
let isClosing = false;
let isFailing = false;
/** The reserve is used up: nothing new is admitted. */
let isLow = false;
let retry: NodeJS.Timeout | undefined;
/** Undefined after the file was found corrupt or unusable, until it is open again. */
let db: Database | undefined;
const reserve = createDiskReserve(path);

function open(): Database {
  try {
    return openDatabase(path, Date.now, keep);
  } catch (error) {
    if (isDiskProblem(error) && reserve.use()) {
      isLow = true;
      return openDatabase(path, Date.now, keep);
    }
    if (!isCorrupt(error)) throw error;
    say({ kind: "moved_aside", to: moveAside(path, Date.now()), reason: reasonOf(error) });
    return openDatabase(path, Date.now, keep);
  }
}

/** Returns the number of start rows that became records of reason `lost`. Throws when the batch could not be written. */
function commit(): number {
  try {
    db ??= open();
    // Before the first write of this run: later start rows belong to running requests.
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

/** Commits on a disk that may be full: empties the log, then uses the reserved space. */
function commitWithReserve(): number {
  try {
    return commit();
  } catch (error) {
    if (!isDiskProblem(error)) throw error;
    db?.shrinkLog();
    try {
      return commit();
    } catch (again) {
      if (!isDiskProblem(again) || !reserve.use()) throw reopened(again);
    }
    isLow = true;
    db?.shrinkLog();
    return commit();
  }
}

/** Closes the connection after an I/O error; the next one reads the state from the disk. */
function reopened(error: unknown): unknown {
  if (!isIoError(error)) return error;
  try {
    db?.close();
  } catch {
    // The next connection reads the disk.
  }
  db = undefined;
  return error;
}

function run(): void {
  clearTimeout(retry);
  try {
    const hadWork = queue.length > 0 || ends !== "" || isFailing || isLow;
    commitWithReserve();
    isFailing = false;
    if (isLow && reserve.restore()) isLow = false;
    if (hadWork && db) say({ kind: "written", through, lastId, depth: db.depth(), isLow });
    if (isLow) retry = setTimeout(run, retryMs);
  } catch (error) {
    isFailing = true;
    say({ kind: "failing", reason: reasonOf(error) });
    retry = setTimeout(run, retryMs);
  }
  if (db && !db.isMoving) answerResends();
  else answerQuestions();
  if (!isClosing) {
    moveSoon(0);
    return;
  }
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
      if (!db) throw new Error("the state file cannot be opened now");
      const found = answer(db);
      if (found) say({ kind: "answered", query, answer: found });
    } catch (error) {
      say({ kind: "unanswered", query, reason: reasonOf(error) });
    }
  }
}

/** Schedules the next step after the messages that have arrived: records of requests do not wait for the whole resend. */
function moveSoon(delayMs: number): void {
  if (isMoveDue || !db?.isMoving) return;
  isMoveDue = true;
  const next = () => {
    isMoveDue = false;
    if (!isClosing) moveKept();
  };
  if (delayMs === 0) setImmediate(next);
  else setTimeout(next, delayMs);
}

function moveKept(): void {
  // The remaining space is for new records.
  if (!db || isFailing || isLow) {
    moveSoon(retryMs);
    return;
  }
  try {
    db.moveKept();
    say({ kind: "moved", depth: db.depth() });
  } catch (error) {
    say({ kind: "not_moved", reason: reasonOf(error) });
    if (isCorrupt(error)) {
      db.close();
      db = undefined;
      run();
    } else moveSoon(retryMs);
    return;
  }
  if (db.isMoving) moveSoon(0);
  else answerResends();
}

/** Repeats the queries, also to a file that replaced a corrupt one. */
function answerResends(): void {
  for (const { query, id } of resends) askResend(query, id);
  resends = [];
  answerQuestions();
}

function askResend(query: number, id: string): void {
  const answer = (open: Database): Resend | undefined => {
    for (const older of resends.filter((one) => one.id !== id))
      say({ kind: "unanswered", query: older.query, reason: "a newer resend has begun" });
    resends = resends.filter((one) => one.id === id);
    const resend = open.resend(id);
    if (!resend) resends.push({ query, id });
    return resend;
  };
  questions.push({ query, answer });
}

function take(message: ToWorker): void {
  switch (message.kind) {
    case "write":
      for (const write of message.writes) queue.push(write);
      ends += message.ends;
      through = message.through;
      return;
    case "pending":
      questions.push({ query: message.query, answer: (open) => open.pending(message.limit) });
      return;
    case "leases":
      questions.push({ query: message.query, answer: (open) => open.leaseIds() });
      return;
    case "resend":
      askResend(message.query, message.id);
      return;
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
    // While writes fail only the timer retries: not every request writes to a full disk.
    if (!isFailing || isClosing) run();
    else answerQuestions();
  });
  moveSoon(0);
}

try {
  db = open();
  const meta = db.meta();
  let lost = 0;
  try {
    lost = commitWithReserve();
    isLow = !reserve.restore();
    if (isLow) throw new Error("the disk has no space for the reserve of the agent's state");
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
