-- Connections, what each source last offered, and the record of calls.

CREATE TABLE connections (
  project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  auth_type TEXT NOT NULL,
  category TEXT NOT NULL,
  target TEXT NOT NULL,
  metadata TEXT NOT NULL,
  secret_places TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (project, name)
);

-- One row per source of a version: its accepted definitions, what is quarantined, and how it is doing, as one blob.
CREATE TABLE source_records (
  project TEXT NOT NULL,
  toolbox TEXT NOT NULL,
  version INTEGER NOT NULL,
  label TEXT NOT NULL,
  record BLOB NOT NULL,
  PRIMARY KEY (project, toolbox, version, label),
  FOREIGN KEY (project, toolbox, version)
    REFERENCES toolbox_versions (project, toolbox, number) ON DELETE CASCADE
);

-- Calls, a row per toolbox and flush: a row per call made a busy server spend more on its record than on the call.
CREATE TABLE call_batches (
  project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
  toolbox TEXT NOT NULL,
  last_at BIGINT NOT NULL,
  calls INTEGER NOT NULL,
  records BLOB NOT NULL
);

CREATE INDEX call_batches_by_time ON call_batches (last_at);
