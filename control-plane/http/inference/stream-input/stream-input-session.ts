// ElevenLabs' speech from streamed text: text in parts, and for each piece of it one speech request, whose audio goes out as it
// arrives. INVARIANTS: at most one request of a session runs, in the order of the text; text that was not spoken is not billed.
import { type Static, Type } from "typebox";
import { badRequest } from "../../../service-error.ts";
import { refusalOf } from "../../errors/render-error.ts";
import { goingAway, type OpenSocket, policyViolation, serverError } from "../../sockets/open-socket.ts";
import type { SocketSession } from "../../sockets/socket-route.ts";
import type { Validate } from "../inference-entry.ts";
import { nullable } from "../sampling-schemas.ts";
import { speech } from "../tasks/speech.ts";
import { maxCharacters } from "../tasks-schemas.ts";
import { TextPieces } from "./text-pieces.ts";

/** Characters from which `try_trigger_generation` has an effect. */
const minTriggerChars = 50;
/** Pieces that wait before the client's messages are no longer read. */
const maxWaiting = 16;

export const StreamInputMessage = Type.Object({
  text: Type.Optional(Type.String({ maxLength: maxCharacters })),
  try_trigger_generation: Type.Optional(nullable.boolean()),
  flush: Type.Optional(nullable.boolean()),
  generation_config: Type.Optional(
    Type.Unsafe<{ readonly chunk_length_schedule?: readonly number[] | null } | null>({
      type: ["object", "null"],
      properties: {
        chunk_length_schedule: {
          type: ["array", "null"],
          minItems: 1,
          maxItems: 32,
          items: { type: "number", minimum: 5, maximum: 500 },
        },
      },
    }),
  ),
  voice_settings: Type.Optional(
    Type.Unsafe<{ readonly speed?: number | null } | null>({
      type: ["object", "null"],
      properties: { speed: { type: ["number", "null"], minimum: 0.25, maximum: 4 } },
    }),
  ),
});
type StreamInputMessage = Static<typeof StreamInputMessage>;

/** Voice and model of a session. */
export interface Speaker {
  readonly model: string;
  readonly voice: string;
}

export interface StreamInputOptions {
  /** May reject with a ServiceError. */
  readonly speaker: () => Promise<Speaker>;
  readonly format: string;
  /** Bytes before those of the first piece. */
  readonly head: Buffer | undefined;
  readonly language: string | undefined;
  /** Each message is spoken at once. */
  readonly isAuto: boolean;
  readonly idleMs: number;
  readonly validate: Validate;
}

export class StreamInputSession implements SocketSession {
  readonly idleMs: number;
  readonly #socket: OpenSocket;
  readonly #options: StreamInputOptions;
  #pieces = new TextPieces();
  #waiting: string[] = [];
  #isRunning = false;
  #hasMessages = false;
  #speed: number | undefined;
  #speaker: Speaker | undefined;
  #head: Buffer | undefined;
  /** The client sent all of its text, or this control plane stops. */
  #end: "client" | "leaving" | undefined;
  #isOver = false;

  constructor(socket: OpenSocket, options: StreamInputOptions) {
    this.#socket = socket;
    this.#options = options;
    this.idleMs = options.idleMs;
    this.#head = options.head;
  }

  get isBusy(): boolean {
    return this.#isRunning;
  }

  message(text: string): void {
    if (this.#isOver || this.#end) return;
    try {
      this.#take(this.#read(text));
    } catch (error) {
      this.#failed(error);
    }
  }

  leave(): void {
    this.#end = "leaving";
    this.#waiting = [];
    if (!this.#isRunning) this.#finish();
  }

  idle(): void {
    const seconds = this.idleMs / 1000;
    this.#failed(badRequest("input_timeout_exceeded", `No text was received for ${seconds} seconds. Connect again.`));
  }

  closed(): void {
    this.#isOver = true;
    this.#waiting = [];
  }

  #read(text: string): StreamInputMessage {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      throw badRequest("json_invalid", "The message is not valid JSON. Send one JSON object.");
    }
    const { validate } = this.#options;
    if (validate(value) === false)
      throw Object.assign(new Error("the message does not fit its schema"), {
        validation: validate.errors,
        validationContext: "body",
      });
    return value as StreamInputMessage;
  }

  #take(message: StreamInputMessage): void {
    const { text = " ", try_trigger_generation: tries, flush } = message;
    if (!this.#hasMessages) {
      this.#hasMessages = true;
      const schedule = message.generation_config?.chunk_length_schedule;
      if (schedule) this.#pieces = new TextPieces(schedule);
    }
    this.#speed = message.voice_settings?.speed ?? this.#speed;
    const pieces = this.#pieces;
    if (pieces.length + text.length > maxCharacters)
      throw badRequest(
        "text_too_long",
        `At most ${maxCharacters} characters may wait to be spoken. Separate words by spaces.`,
        { param: "text" },
      );
    pieces.add(text);
    if (text === "" || flush) this.#speak(pieces.takeAll());
    else if (this.#options.isAuto) this.#speak(pieces.takeAll());
    else this.#speak([...pieces.takeDue(), ...(tries ? pieces.takeWords(minTriggerChars) : [])]);
    if (text === "") this.#end = "client";
    if (this.#end && !this.#isRunning) this.#finish();
  }

  #speak(pieces: readonly string[]): void {
    if (pieces.length === 0) return;
    this.#waiting.push(...pieces);
    if (this.#waiting.length >= maxWaiting) this.#socket.pause();
    if (!this.#isRunning) void this.#runAll();
  }

  /** Never rejects. */
  async #runAll(): Promise<void> {
    this.#isRunning = true;
    try {
      this.#speaker ??= await this.#options.speaker();
      for (let text = this.#waiting.shift(); text !== undefined; text = this.#waiting.shift()) {
        if (this.#waiting.length < maxWaiting) this.#socket.resume();
        await this.#run(text, this.#speaker);
        if (this.#isOver) return;
      }
      if (this.#end) this.#finish();
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#isRunning = false;
    }
  }

  async #run(text: string, { model, voice }: Speaker): Promise<void> {
    const { format, language } = this.#options;
    const completion = speech({ model, text, voice, format, language, speed: this.#speed });
    const { refusal } = await this.#socket.run(completion, (bytes) => {
      const audio = this.#head ? Buffer.concat([this.#head, bytes]) : bytes;
      this.#head = undefined;
      this.#socket.send({
        audio: audio.toString("base64"),
        isFinal: null,
        normalizedAlignment: null,
        alignment: null,
      });
    });
    if (refusal) this.#refused(refusal);
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#waiting = [];
    if (this.#end === "leaving") {
      this.#socket.close(goingAway, "restarting");
      return;
    }
    this.#socket.send({ audio: null, isFinal: true, normalizedAlignment: null, alignment: null });
    this.#socket.close(1000, "");
  }

  #failed(error: unknown): void {
    this.#refused(refusalOf(error));
  }

  #refused({ status, code, message }: ReturnType<typeof refusalOf>): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#waiting = [];
    const close = status >= 500 ? serverError : policyViolation;
    this.#socket.send({ message, error: code, code: close });
    this.#socket.close(close, code);
  }
}
