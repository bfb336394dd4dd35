import { dirname, relative } from "node:path";

export interface Running {
  readonly url: string;
  readonly keyFile: string;
  /** The model to call, or undefined when none is served. */
  readonly model: string | undefined;
  /** Undefined: text generation. */
  readonly task?: string | undefined;
}

/** What the operator needs next: where it is, where the key is, and a call to paste. */
export function banner(running: Running, cwd: string): string {
  const near = relative(cwd, running.keyFile);
  const keyFile = near !== "" && !near.startsWith("..") ? near : running.keyFile;
  const lines = [
    "",
    `Stoker is ready at ${running.url} (reference: ${running.url}/docs).`,
    `The key is in ${keyFile}`,
    `The console is at ${running.url}/console; a password to sign in with is set once: ${passwordCall(keyFile)}`,
    "",
  ];
  if (running.model === undefined) lines.push("Your account:", "", `  ${curl("", keyFile, `${running.url}/v1/me`)}`);
  else if (running.task === "text-to-speech")
    lines.push("A first sentence, spoken:", "", speechCall(running.url, keyFile, running.model));
  else if (running.task === "automatic-speech-recognition")
    lines.push("A first recording, heard:", "", transcriptionCall(running.url, keyFile, running.model));
  else if (running.task === "text-to-image")
    lines.push("A first picture, painted:", "", imageCall(running.url, keyFile, running.model));
  else if (running.task === "embeddings")
    lines.push("Two first vectors:", "", embeddingsCall(running.url, keyFile, running.model));
  else lines.push("A first answer, streamed:", "", streamingCall(running.url, keyFile, running.model));
  return [...lines, "", "Ctrl-C stops everything.", ""].join("\n");
}

/** Of a control plane that joined another installation: its accounts and models are the same everywhere. */
export const joinedBanner = (url: string): string =>
  ["", `This control plane is ready at ${url}, beside those of its database.`, "", "Ctrl-C stops it.", ""].join("\n");

function streamingCall(url: string, keyFile: string, model: string): string {
  return jsonCall("-N ", keyFile, `${url}/v1/compat/chat/completions`, {
    model,
    stream: true,
    temperature: 0,
    max_tokens: 60,
    messages: [{ role: "user", content: "Tell me the capital of France." }],
  });
}

function speechCall(url: string, keyFile: string, model: string): string {
  const body = { model, input: "Hello, I am running on your machine.", response_format: "mp3" };
  return jsonCall("-o hello.mp3 ", keyFile, `${url}/v1/audio/speech`, body);
}

function imageCall(url: string, keyFile: string, model: string): string {
  const body = { model, prompt: "a handwritten seven", size: "64x64" };
  return jsonCall("", keyFile, `${url}/v1/images/generations`, body);
}

function embeddingsCall(url: string, keyFile: string, model: string): string {
  const body = { model, input: ["The capital of France.", "Paris"] };
  return jsonCall("", keyFile, `${url}/v1/embeddings`, body);
}

function jsonCall(flags: string, keyFile: string, url: string, body: object): string {
  return [
    `  ${curl(flags, keyFile, url)} \\`,
    `    -H 'Content-Type: application/json' \\`,
    `    -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
  ].join("\n");
}

function transcriptionCall(url: string, keyFile: string, model: string): string {
  return `  ${curl("", keyFile, `${url}/v1/audio/transcriptions`)} \\
    -F model=${model} -F file=@recording.wav`;
}

/** The command finds the address and the key by the data folder. */
function passwordCall(keyFile: string): string {
  const folder = dirname(keyFile);
  return `${folder === ".stoker" ? "" : `STOKER_DATA=${quoted(folder)} `}npx stoker auth set-password`;
}

function curl(flags: string, keyFile: string, url: string): string {
  return `curl ${flags}${url} -H "Authorization: Bearer $(cat ${quoted(keyFile)})"`;
}

const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
