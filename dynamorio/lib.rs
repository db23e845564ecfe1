//! Nothing: the manifest beside this file is there for its dependency.
