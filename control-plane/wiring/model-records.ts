// What the HTTP edge may ask of model records, with its ports filled in.
import type { Directory } from "../catalog/directory.ts";
import { createModelRecords, type ModelRecords } from "../catalog/model-records.ts";
import { deleteDeployment } from "../deployments/change.ts";
import type { OpenDatabase } from "../store/database.ts";
import { createModelMetaStore } from "../store/model-meta-store.ts";
import { answering } from "./answering.ts";
import type { Fleet } from "./fleet.ts";

export function createModelRecordVerbs({
  db,
  directory,
  fleet,
}: {
  readonly db: OpenDatabase["db"];
  readonly directory: Pick<Directory, "refresh">;
  readonly fleet: Pick<Fleet, "deploymentStore">;
}): ModelRecords {
  const store = fleet.deploymentStore;
  const records = createModelRecords({
    store: createModelMetaStore(db),
    refresh: directory.refresh,
    async endDeployments(account, name, version) {
      for (const one of await store.list(account, "model", undefined)) {
        const isMeant = one.modelName === name && one.status !== "deleted";
        if (isMeant && (version === undefined || one.version === version))
          await deleteDeployment(store, account, one.id);
      }
    },
  });
  return {
    papers: (model) => answering(() => records.papers(model)),
    versions: (model) => answering(() => records.versions(model)),
    change: (editor, model, change) => answering(() => records.change(editor, model, change)),
    show: (editor, model, isShown) => answering(() => records.show(editor, model, isShown)),
    remove: (editor, model, version) => answering(() => records.remove(editor, model, version)),
    hourRates: () => answering(records.hourRates),
  };
}
