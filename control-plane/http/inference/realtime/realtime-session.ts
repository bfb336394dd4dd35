// OpenAI's Realtime interface for transcription: audio in, and for each part of it, which the client commits or a pause ends, one
// transcription request. INVARIANTS: at most one request of a session runs; audio that was not committed is not billed.
import { randomId } from "../../../../proto/ids.ts";
import { badRequest, invalid, rateLimited, type ServiceError } from "../../../service-error.ts";
import { FormFile } from "../../body/form-body.ts";
import { mediaLimitBytes } from "../../body/json-body.ts";
import { compatError, type Refusal } from "../../errors/error-body.ts";
import { bodiesFull } from "../../errors/errors.ts";
import { refusalOf } from "../../errors/render-error.ts";
import { goingAway, type OpenSocket, policyViolation } from "../../sockets/open-socket.ts";
import type { SocketSession } from "../../sockets/socket-route.ts";
import { durationUsage } from "../audio-routes.ts";
import type { Validate } from "../inference-entry.ts";
import { transcription } from "../tasks/transcription.ts";
import { maxTranscriptBytes, readTranscript, TranscriptText } from "../transcript-events.ts";
import { TranslatedStream } from "../translated-stream.ts";
import {
  formerUpdated,
  initialConfig,
  renderConfig,
  renderFormerConfig,
  type SessionConfig,
  updated,
} from "./session-config.ts";
import { rateOf, SampleBuffer, type SoundFormat, samplesOf, wavOf } from "./sound.ts";
import { VoiceActivity } from "./voice-activity.ts";

/** Maximum committed parts that wait for the one that runs. */
const maxWaiting = 16;
const maxEventIdChars = 512;
/** A commit of less is refused. */
const minCommitMs = 100;
/** Speech without a pause is committed after this time. */
const maxSpeechSeconds = 60;
/** Memory of the buffer counts in steps, so that small appends cost little. */
const holdStepBytes = 64 * 1024;
const bytesPerSample = 2;

export interface RealtimeValidators {
  readonly update: Validate;
  readonly formerUpdate: Validate;
}

interface Part {
  readonly item: string;
  readonly samples: Buffer;
  readonly config: SessionConfig;
}

type ClientEvent = Readonly<Record<string, unknown>>;

export class RealtimeSession implements SocketSession {
  readonly idleMs = 300_000;
  readonly #socket: OpenSocket;
  readonly #validators: RealtimeValidators;
  /** The client uses the interface before the current one. */
  readonly #isFormer: boolean;
  #config: SessionConfig;
  #sound = new SampleBuffer();
  #voice: VoiceActivity | undefined;
  /** Item of the speech that goes on. */
  #speaking: string | undefined;
  #lastItem: string | null = null;
  #waiting: Part[] = [];
  #running: Part | undefined;
  #heldBytes = 0;
  #isLeaving = false;

  constructor(
    socket: OpenSocket,
    validators: RealtimeValidators,
    options: { readonly model: string | undefined; readonly isFormer: boolean },
  ) {
    this.#socket = socket;
    this.#validators = validators;
    this.#isFormer = options.isFormer;
    this.#config = { ...initialConfig, model: options.model };
    this.#listen();
    this.#tellConfig("created");
  }

  get isBusy(): boolean {
    return this.#running !== undefined;
  }

  message(text: string): void {
    let event: ClientEvent = {};
    try {
      event = parsed(text);
      this.#handle(event);
    } catch (error) {
      this.#sendError(refusalOf(error), event);
    }
  }

  leave(): void {
    this.#isLeaving = true;
    this.#waiting = [];
    if (!this.#running) this.#socket.close(goingAway, "restarting");
  }

  idle(): void {
    this.#socket.close(policyViolation, "idle_timeout");
  }

  closed(): void {
    this.#waiting = [];
    this.#sound.clear();
    this.#hold();
  }

  #handle(event: ClientEvent): void {
    switch (event["type"]) {
      case "session.update":
        check(this.#validators.update, event);
        this.#configure(updated(this.#config, event as never));
        break;
      case "transcription_session.update":
        check(this.#validators.formerUpdate, event);
        this.#configure(formerUpdated(this.#config, event as never));
        break;
      case "input_audio_buffer.append":
        this.#append(event["audio"]);
        break;
      case "input_audio_buffer.commit":
        this.#commitAll();
        break;
      case "input_audio_buffer.clear":
        this.#sound.clear();
        this.#listen();
        this.#hold();
        this.#send("input_audio_buffer.cleared", {});
        break;
      default:
        throw invalid(
          "unsupported_event",
          "Unsupported event type. Supported: session.update, transcription_session.update, input_audio_buffer.append, " +
            "input_audio_buffer.commit, input_audio_buffer.clear.",
          { param: "type" },
        );
    }
  }

  #configure(config: SessionConfig): void {
    if (config.format !== this.#config.format && this.#sound.length > 0)
      throw badRequest(
        "audio_buffer_not_empty",
        "The audio format can change only while the buffer is empty. Commit or clear it first.",
      );
    const isSame = config.format === this.#config.format && config.turnDetection === this.#config.turnDetection;
    this.#config = config;
    if (!isSame) this.#listen();
    this.#tellConfig("updated");
  }

  #tellConfig(state: "created" | "updated"): void {
    const id = `sess_${this.#socket.id}`;
    if (this.#isFormer) this.#send(`transcription_session.${state}`, { session: renderFormerConfig(id, this.#config) });
    else this.#send(`session.${state}`, { session: renderConfig(id, this.#config) });
  }

  /** Forgets speech that was found but not committed. */
  #listen(): void {
    const { format, turnDetection } = this.#config;
    this.#speaking = undefined;
    this.#voice = turnDetection
      ? new VoiceActivity({
          rate: rateOf(format),
          start: this.#sound.end,
          threshold: turnDetection.threshold,
          silenceMs: turnDetection.silence_duration_ms,
        })
      : undefined;
  }

  #append(audio: unknown): void {
    const samples = decoded(this.#config.format, audio);
    if (this.#isLeaving || samples.length === 0) return;
    const max = mediaLimitBytes - holdStepBytes;
    if (this.#sound.byteLength + samples.length > max) throw bufferFull(max, rateOf(this.#config.format));
    if (!this.#hold(samples.length)) throw bodiesFull();
    this.#sound.append(samples);
    if (this.#voice) this.#followVoice(this.#voice, samples);
    this.#hold();
  }

  #followVoice(voice: VoiceActivity, samples: Buffer): void {
    const rate = rateOf(this.#config.format);
    const padding = ((this.#config.turnDetection?.prefix_padding_ms ?? 0) / 1000) * rate;
    const inMs = (position: number) => Math.round((position / rate) * 1000);
    for (const { kind, at } of voice.push(samples)) {
      if (kind === "started") {
        this.#sound.dropBefore(Math.round(at - padding));
        this.#speaking = newItem();
        this.#send("input_audio_buffer.speech_started", {
          audio_start_ms: inMs(this.#sound.start),
          item_id: this.#speaking,
        });
        continue;
      }
      const item = this.#speaking ?? newItem();
      this.#speaking = undefined;
      this.#send("input_audio_buffer.speech_stopped", { audio_end_ms: inMs(at), item_id: item });
      this.#commit(item, at);
    }
    if (voice.isSpeech && this.#sound.length > maxSpeechSeconds * rate) {
      const item = this.#speaking ?? newItem();
      this.#speaking = newItem();
      this.#commit(item, this.#sound.end);
    } else if (!voice.isSpeech) this.#sound.dropBefore(Math.floor(this.#sound.end - voice.pendingSamples - padding));
  }

  #commitAll(): void {
    const rate = rateOf(this.#config.format);
    if ((this.#sound.length / rate) * 1000 < minCommitMs)
      throw badRequest(
        "input_audio_buffer_commit_empty",
        `The buffer must contain at least ${minCommitMs} ms of audio before a commit.`,
      );
    const item = this.#speaking ?? newItem();
    this.#speaking = undefined;
    this.#voice?.restart();
    this.#commit(item, this.#sound.end);
    this.#hold();
  }

  #commit(item: string, end: number): void {
    const part = { item, samples: this.#sound.takeBefore(end), config: this.#config };
    const previous = this.#lastItem;
    this.#lastItem = item;
    this.#send("input_audio_buffer.committed", { previous_item_id: previous, item_id: item });
    this.#send(this.#isFormer ? "conversation.item.created" : "conversation.item.added", {
      previous_item_id: previous,
      item: {
        id: item,
        type: "message",
        object: "realtime.item",
        status: "completed",
        role: "user",
        content: [{ type: "input_audio", transcript: null }],
      },
    });
    if (this.#waiting.length >= maxWaiting) this.#fail(item, refusalOf(queueFull()));
    else {
      this.#waiting.push(part);
      if (!this.#running) void this.#runNext();
    }
  }

  /** Never rejects. */
  async #runNext(): Promise<void> {
    for (let part = this.#waiting.shift(); part && this.#socket.isOpen; part = this.#waiting.shift()) {
      this.#running = part;
      await this.#run(part);
      this.#running = undefined;
      this.#hold();
    }
    if (this.#isLeaving) this.#socket.close(goingAway, "restarting");
  }

  async #run({ item, samples, config }: Part): Promise<void> {
    const { format, model, language, prompt } = config;
    if (model === undefined) return this.#fail(item, refusalOf(modelMissing()));
    const transcript = new TranscriptText();
    let engineError: object | undefined;
    const event = (data: string): string => {
      const part = readTranscript(data);
      if (part?.kind === "error") engineError = part.error;
      else if (part) {
        const delta = transcript.add(part);
        if (delta !== "") this.#transcribed(item, "delta", { delta });
      }
      return "";
    };
    const translation = {
      event,
      end: () => "",
      maxKeptBytes: maxTranscriptBytes,
      keptBytes() {
        return transcript.keptBytes;
      },
    };
    const file = new FormFile("audio.wav", "audio/wav", wavOf(samples, rateOf(format)));
    const completion = transcription({
      model,
      task: "transcribe",
      file,
      language,
      prompt,
      format: "json",
      stream: true,
    });
    const { refusal, trace } = await this.#socket.run(
      completion,
      () => {},
      (sink) => new TranslatedStream(sink, translation, this.#socket.spine.answers),
    );
    if (refusal) this.#fail(item, refusal, trace.requestId);
    else if (engineError !== undefined) this.#transcribed(item, "failed", { error: engineError });
    else this.#transcribed(item, "completed", { transcript: transcript.text, usage: durationUsage(trace) });
  }

  #fail(item: string, refusal: Refusal, requestId?: string): void {
    this.#transcribed(item, "failed", { error: compatError(refusal, requestId) });
  }

  #transcribed(item: string, state: "delta" | "completed" | "failed", facts: object): void {
    this.#send(`conversation.item.input_audio_transcription.${state}`, { item_id: item, content_index: 0, ...facts });
  }

  #send(type: string, facts: object): void {
    this.#socket.send({ type, event_id: `event_${randomId(20)}`, ...facts });
  }

  #sendError(refusal: Refusal, { event_id: cause }: ClientEvent): void {
    const event = typeof cause === "string" ? cause.slice(0, maxEventIdChars) : null;
    this.#send("error", { error: { ...compatError(refusal), event_id: event } });
  }

  /** Counts the audio that is held, and `more`. Returns false when the server has no memory for it. */
  #hold(more = 0): boolean {
    const parts = [this.#running, ...this.#waiting].reduce((sum, part) => sum + (part?.samples.length ?? 0), 0);
    const bytes = Math.ceil((this.#sound.byteLength + parts + more) / holdStepBytes) * holdStepBytes;
    if (bytes === this.#heldBytes) return true;
    const { bodies, caller } = this.#socket;
    const before = this.#heldBytes;
    if (bytes > before) {
      if (!bodies.take(caller.account, bytes - before, before)) return false;
    } else {
      bodies.give(caller.account, before);
      bodies.add(caller.account, bytes);
    }
    this.#heldBytes = bytes;
    return true;
  }
}

const newItem = () => `item_${randomId(20)}`;

function parsed(text: string): ClientEvent {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badRequest("json_invalid", "The message is not valid JSON. Send one JSON object.");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw badRequest("json_invalid", "The message must be a JSON object.");
  return value as ClientEvent;
}

function check(validate: Validate, event: ClientEvent): void {
  if (validate(event) !== false) return;
  throw Object.assign(new Error("the event does not fit its schema"), {
    validation: validate.errors,
    validationContext: "body",
  });
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

function decoded(format: SoundFormat, audio: unknown): Buffer {
  if (typeof audio !== "string" || !base64.test(audio))
    throw invalid("invalid_audio", "`audio` must be base64.", { param: "audio" });
  const samples = samplesOf(format, Buffer.from(audio, "base64"));
  if (!samples) throw invalid("invalid_audio", "`audio` must contain whole samples of 16 bits.", { param: "audio" });
  return samples;
}

const modelMissing = (): ServiceError =>
  invalid("model_missing", "The session has no transcription model. Set one with session.update.", {
    param: "session.audio.input.transcription.model",
  });

const queueFull = () =>
  rateLimited(
    "too_many_segments",
    `At most ${maxWaiting} parts of a session may wait for their transcription. Commit larger parts.`,
  );

const bufferFull = (bytes: number, rate: number) =>
  badRequest(
    "audio_too_long",
    `The buffer must contain at most ${Math.floor(bytes / bytesPerSample / rate)} seconds of audio. Commit or clear it.`,
    { param: "audio" },
  );
