/** A value that never appears in logs, dumps and messages. */
export class Secret {
  readonly #value: string;
  constructor(value: string) {
    this.#value = value;
  }
  reveal(): string {
    return this.#value;
  }
  toJSON(): string {
    return "[secret]";
  }
  toString(): string {
    return "[secret]";
  }
}
