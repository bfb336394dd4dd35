// Original file: proto/fleet/v1/fleet.proto

import type { AdapterReport as _stoker_fleet_v1_AdapterReport, AdapterReport__Output as _stoker_fleet_v1_AdapterReport__Output } from '../../../stoker/fleet/v1/AdapterReport.ts';
import type { Long } from '@grpc/proto-loader';

export interface InstanceReport {
  'instanceId'?: (string);
  'deployId'?: (string);
  'generation'?: (number | string | Long);
  'phase'?: (string);
  'failCode'?: (string);
  'failMessage'?: (string);
  'bytesDone'?: (number | string | Long);
  'bytesTotal'?: (number | string | Long);
  'inFlight'?: (number);
  'waiting'?: (number);
  'restarts'?: (number);
  'startedAtMs'?: (number | string | Long);
  'identity'?: (string);
  'tokensPerSecond'?: (number | string);
  'contextLength'?: (number);
  'memoryBytes'?: (number | string | Long);
  'gpuUuids'?: (string)[];
  'cpuRatio'?: (number | string);
  'kvCacheRatio'?: (number | string);
  'engineRunning'?: (number);
  'engineWaiting'?: (number);
  'sshPort'?: (number);
  'sshAddress'?: (string);
  'finished'?: (number | string | Long);
  'adapters'?: (_stoker_fleet_v1_AdapterReport)[];
  'turnedAway'?: (number | string | Long);
  'formats'?: (string)[];
  'queueP95Ms'?: (number);
  'ttftP95Ms'?: (number);
  'serverBatchSize'?: (number);
  '_cpuRatio'?: "cpuRatio";
  '_kvCacheRatio'?: "kvCacheRatio";
  '_queueP95Ms'?: "queueP95Ms";
  '_ttftP95Ms'?: "ttftP95Ms";
}

export interface InstanceReport__Output {
  'instanceId': (string);
  'deployId': (string);
  'generation': (string);
  'phase': (string);
  'failCode': (string);
  'failMessage': (string);
  'bytesDone': (string);
  'bytesTotal': (string);
  'inFlight': (number);
  'waiting': (number);
  'restarts': (number);
  'startedAtMs': (string);
  'identity': (string);
  'tokensPerSecond': (number);
  'contextLength': (number);
  'memoryBytes': (string);
  'gpuUuids': (string)[];
  'cpuRatio'?: (number);
  'kvCacheRatio'?: (number);
  'engineRunning': (number);
  'engineWaiting': (number);
  'sshPort': (number);
  'sshAddress': (string);
  'finished': (string);
  'adapters': (_stoker_fleet_v1_AdapterReport__Output)[];
  'turnedAway': (string);
  'formats': (string)[];
  'queueP95Ms'?: (number);
  'ttftP95Ms'?: (number);
  'serverBatchSize': (number);
  '_cpuRatio'?: "cpuRatio";
  '_kvCacheRatio'?: "kvCacheRatio";
  '_queueP95Ms'?: "queueP95Ms";
  '_ttftP95Ms'?: "ttftP95Ms";
}
