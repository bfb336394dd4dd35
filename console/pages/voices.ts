import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useLoaded } from "../loaded.ts";
import { Act } from "../parts/act.ts";
import { Ago } from "../parts/ago.ts";
import { Field, Form } from "../parts/form.ts";
import { type Column, Table } from "../parts/table.ts";

interface Voice {
  readonly voice_id: string;
  readonly name: string;
  readonly description: string;
  /** 0: it comes with a model. */
  readonly created_at: number;
  readonly kind?: string;
}

export function Voices(): View {
  const api = useApi();
  const voices = useLoaded(
    async () => (await api.call<{ readonly voices: readonly Voice[] }>("GET", "/v1/voices")).voices,
    [api],
  );
  const then = async (act: Promise<unknown>) => {
    await act;
    await voices.reload();
  };
  const add = (_fields: object, form: FormData) => then(api.call("POST", "/v1/voices/add", form));
  const rename = ({ voice = "" }: Readonly<Record<string, string>>, form: FormData) => {
    form.delete("voice");
    return then(api.call("POST", `/v1/voices/${encodeURIComponent(voice)}/edit`, form));
  };
  const columns: readonly Column<Voice>[] = [
    {
      name: "Voice",
      value: (one) => one.name,
      show: (one) => html`${one.name}<br /><code>${one.voice_id}</code>`,
    },
    { name: "What it is", value: (one) => one.description },
    {
      name: "Whose",
      value: (one) => (isOwn(one) ? "yours" : "comes with a model"),
    },
    {
      name: "Made",
      value: (one) => one.created_at,
      show: (one) => (one.created_at === 0 ? "–" : html`<${Ago} at=${one.created_at} />`),
    },
    {
      name: "",
      value: () => null,
      show: (one) =>
        isOwn(one) &&
        html`<${Act} label="Delete" command=${`stoker voice delete ${one.voice_id}`}
          sure=${`Delete the voice “${one.name}” and its recordings for good?`}
          onAct=${() => then(api.call("DELETE", `/v1/voices/${encodeURIComponent(one.voice_id)}`))} />`,
    },
  ];
  return html`${shown(voices, (rows) => {
    const own = rows.filter(isOwn);
    return html`<${Table} name="voices" rows=${rows} columns=${columns} keyOf=${(one: Voice) => one.voice_id}
        empty=${html`No voice yet, and no model that speaks is served. Make one below once a <a href="/console/models">model</a> for speech is.`} />
      ${
        own.length > 0 &&
        html`<h2>Rename a voice</h2>
        <${Form} act="Rename it" done="Renamed." onSend=${rename}>
          <label>Voice<select name="voice">${own.map((one) => html`<option value=${one.voice_id}>${one.name}</option>`)}</select></label>
          <${Field} label="Its new name" name="name" maxlength="100" required />
          <${Field} label="Its new description" name="description" maxlength="1000" hint="Empty: none." />
        <//>`
      }`;
  })}
    <h2>Make a voice</h2>
    <p class="quiet">A mixture of a model's own voices that comes close to the recordings: no clone of the speaker. Record nobody who has not agreed.</p>
    <${Form} act="Make the voice" done="Made." onSend=${add}>
      <${Field} label="Name of the voice" name="name" maxlength="100" required />
      <${Field} label="Description" name="description" maxlength="1000" />
      <label>Recordings of one speaker<input type="file" name="files" accept="audio/*,.webm" multiple required />
        <small>Up to 25, as wav, mp3, flac, ogg, m4a or webm. <code class="command">stoker voice add NAME recording.wav</code></small></label>
    <//>`;
}

const isOwn = ({ kind }: Voice): boolean => kind !== "preset";
